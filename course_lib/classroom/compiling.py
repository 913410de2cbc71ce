"""Compile the kernels of one submission for a GPU: what the interpreter lets pass may not do there.

Every kernel exercise that passes is asked for, so the same kernel, launched with the same kinds of
arguments, is compiled once. All that a submission asks for has one time limit; what is not done
by then is *unclear*, as nobody shall win by being slow.
"""

from __future__ import annotations

import ast
import contextlib
from typing import Any

from course_lib.child.codec import BadFrame
from course_lib.judging import outcomes
from course_lib.judging.finding import Finding
from course_lib.judging.provenance import leaves, tree_of
from course_lib.judging.report import Report
from course_lib.judging.spec import Case, Exercise
from course_lib.laptop import interpreter_only
from course_lib.sandbox.channel import Closed, TooLate
from course_lib.sandbox.limit import Clock
from course_lib.sandbox.workshop import Child, InfrastructureError, Workshop

SECONDS = 300.0  # CPU, of all kernels of a submission; a kernel takes one or two, a case less
FOR = 80  # sm_80
OPEN = "compiles for a GPU in time"  # the property of a kernel that nobody could compile
_NOWHERE = "the answer is right; its kernels are not compiled on this system: grade it on Linux."
_CERTAIN = "@triton.jit\ndef store_one(x):\n    tl.store(x, 1.0)\n"

Launch = dict[str, Any]


class Compiler:
    """Says of each exercise's launches whether they compile; one for each submission.

    Use as a context manager: its process, in which each kernel after the first takes half the
    time, ends with it.
    """

    def __init__(self, workshop: Workshop) -> None:
        self._workshop, self._stack = workshop, contextlib.ExitStack()
        self._assembled: set[Any] = set()
        self._children: list[Child] = []
        self._clock = Clock(SECONDS, lambda: sum(c.cpu_seconds() for c in self._children))

    def __enter__(self) -> Compiler:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def report(self, exercise: Exercise, launches: list[Launch]) -> Report | None:
        """Return a report if one of the launches does not compile, or then stores something else.

        Those that say ``assembled`` are compiled to the end, of others it is read what is compiled.

        Raises InfrastructureError if it cannot be found out here.
        """
        if launches and interpreter_only():
            raise InfrastructureError(_NOWHERE)
        for launch in launches:
            try:
                answer = self._answer(launch)
            except TooLate:
                says = (
                    f"the answer is right; whether its kernel compiles for a GPU was not found "
                    f"out within {SECONDS:g} seconds, so a person has to look."
                )
                return outcomes.incorrect(exercise, Case(""), Finding(OPEN, says))
            if answer.get("kind") == "unclear":
                says = f"the answer is right; {answer['message']}, so a person has to look."
                return outcomes.incorrect(exercise, Case(""), Finding(OPEN, says))
            if not answer["ok"]:
                return outcomes.not_on_a_gpu(exercise, str(answer["message"]))
        return None

    def _answer(self, launch: Launch) -> dict[str, Any]:
        key = signature(launch) if launch.get("assembled", True) else None
        if key in self._assembled:
            launch = {**launch, "assembled": False}
        answer = self._compiled(launch)
        if answer.get("kind") == "infrastructure":  # once more: memory may have been short
            answer = self._compiled(launch)
        if answer.get("kind") == "infrastructure" and not self._works():
            raise InfrastructureError(str(answer["message"]))
        if key and answer["ok"]:
            self._assembled.add(key)
        return answer

    def _works(self) -> bool:
        """Return whether a kernel that certainly compiles does, so that the fault is another's."""
        import torch

        launch = {"source": _CERTAIN, "name": "store_one", "grid": [1], "options": {}}
        return bool(self._compiled({**launch, "args": {"x": torch.zeros(1)}})["ok"])

    def _compiled(self, launch: Launch) -> dict[str, Any]:
        """Return what the compiler says. Raises TooLate."""
        try:
            answer: dict[str, Any] = self._compiler().ask({**launch, "arch": FOR}, self._clock)
            return answer
        except (Closed, BadFrame):
            self._stack.close()
            says = f"`{launch['name']}` ends the compiler."
            return {"ok": False, "kind": "infrastructure", "message": says}
        except TooLate:
            self._stack.close()  # it has not read, or not answered: it would answer the next one
            raise

    def _compiler(self) -> Child:
        """Return the process that compiles; a new one if that has ended."""
        if not self._children or self._children[-1].usage:
            cpu_seconds = int(SECONDS) + 30  # the clock comes first
            room = self._workshop.compiler(cpu_seconds=cpu_seconds, memory_bytes=8 << 30)
            self._children.append(self._stack.enter_context(room))
        return self._children[-1]


def signature(launch: Launch) -> tuple[Any, ...]:
    """Return all of a launch that its compilation depends on, and nothing else.

    Of a tensor that is its dtype and how it is aligned, of an integer whether it is 1 or divides
    by 16, of a constant its value.
    """
    constants = _constants(launch["source"], launch["name"])
    kinds = []
    for key, value in launch["args"].items():
        for name, leaf in leaves({key: value}):
            kinds.append((name, leaf if key in constants else _kind(leaf)))
    options = tuple(sorted(launch["options"].items()))
    return launch["source"], launch["name"], options, repr(kinds)


def _kind(value: Any) -> Any:
    if hasattr(value, "data_ptr"):
        return str(value.dtype), value.storage_offset() * value.element_size() % 16
    if type(value) is int:
        return "integer", value == 1, value % 16 == 0, value.bit_length() > 31
    return type(value).__name__ if type(value) is float else repr(value)


def _constants(source: str, name: str) -> set[str]:
    """Return the names of the compile-time constants of a function in a source."""
    return {
        argument.arg
        for node in getattr(tree_of(source), "body", ())
        if isinstance(node, ast.FunctionDef) and node.name == name
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        if argument.annotation and "constexpr" in ast.unparse(argument.annotation)
    }
