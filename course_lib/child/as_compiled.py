"""Does a launch, compiled for a GPU, store what it stored in the interpreter?"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from course_lib.accounting import launch_arguments
from course_lib.child.run_compiled import LeftItsTensors, Machine, NotUnderstood, PromiseBroken
from course_lib.child.ttir import Type, lines_of

MOST_LAUNCHES = 8  # of a case, that are run as they are compiled
# how far numbers may lie apart, for the largest that is stored in a tensor: the order of sums,
# another exp2. Of right answers 2**-20 and 2**-15 was seen, of numbers as large as the largest.
_APART = 2.0**-12
_APART_IN_HALVES = 2.0**-9
_MOST_WARPS = 32  # of a program: 1024 threads


def difference(
    text: str, signature: Mapping[str, Any], launch: Mapping[str, Any], file: str
) -> str:
    """Return one sentence (no full stop) if a launch does something else when it is compiled.

    Args:
        text: what Triton's frontend made of the kernel.
        signature: the types of its parameters, "constexpr" for those that are gone.
        launch: its ``name``, ``grid`` and ``args``, as `launch_arguments.to_plain` gives them; and
            ``written``, the tensors that it stored to in the interpreter, by name.
        file: where the source stands.

    Raises NotUnderstood if nobody can tell.
    """
    given = {key: launch_arguments.from_plain(value) for key, value in launch["args"].items()}
    tensors = dict(part for k, v in given.items() for part in launch_arguments.tensors_in(k, v))
    before = {key: _numbers(tensor).copy() for key, tensor in tensors.items()}
    machine = Machine(text)
    values = _with_descriptors([*_values(given, signature)], machine.types)
    name = launch["name"]
    if (warps := launch.get("options", {}).get("num_warps", 4)) > _MOST_WARPS:
        return f"`{name}` asks for {warps} warps, and a program has {_MOST_WARPS} at most"
    try:
        machine.run(launch["grid"], values, tensors.values())
    except LeftItsTensors:
        return f"`{name}` leaves its tensors, and here it does not"
    except PromiseBroken:
        return f"`{name}` assumes or asserts there what does not hold"
    halves = any(x.element_size() < 4 and x.is_floating_point() for x in tensors.values())
    written = launch["written"]
    for key, tensor in tensors.items():
        there, here = _numbers(tensor), _numbers(written[key]) if key in written else before[key]
        if there.shape != here.shape:
            raise NotUnderstood("a tensor of another shape")
        touched = ~_same(here, before[key]) | ~_same(there, before[key])
        apart = touched & _apart(there, here, touched, _APART_IN_HALVES if halves else _APART)
        if not apart.any():
            continue
        at = tuple(int(i) for i in np.argwhere(apart)[0])
        says = (
            f"`{name}` stores other numbers than here: in `{key}` {int(apart.sum()):,} of "
            f"{apart.size:,} differ, the first at {at} is {here[at]:.6g} here and "
            f"{there[at]:.6g} there"
        )
        return says + _left_out(file, name, text)
    return ""


def _values(given: Mapping[str, Any], signature: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the arguments that are there when a kernel runs, in order."""
    for name, kind in signature.items():
        yield from _leaves(given.get(name), kind)


def _leaves(value: Any, kind: Any) -> Iterator[Any]:
    if isinstance(kind, tuple | list):
        for one, of_one in zip(value, kind, strict=True):
            yield from _leaves(one, of_one)
    elif kind != "constexpr":
        yield getattr(value, "table", value)


def _with_descriptors(values: list[Any], types: list[Type]) -> list[Any]:
    """Return the arguments with each descriptor taken apart, as the compiler does for sm_80.

    It becomes its address, shape and strides, and flags, the first of which says what lies outside.
    """
    parts = [
        [value.base, *value.shape, *value.strides] if hasattr(value, "block_shape") else value
        for value in values
    ]
    whole = [part for part in parts if isinstance(part, list)]
    if not whole:
        return values
    flags, rest = divmod(len(types) - sum(map(len, whole)) - (len(parts) - len(whole)), len(whole))
    if rest or flags < 0:
        raise NotUnderstood("its descriptors")
    out = list[Any]()
    for part, value in zip(parts, values, strict=True):
        if isinstance(part, list):
            is_nan = getattr(value, "padding", "zero") == "nan"
            out += [*part, *[is_nan, False, False][:flags]]
        else:
            out.append(part)
    return out


def _numbers(x: Any) -> np.ndarray:
    numbers: np.ndarray = (x.double() if x.is_floating_point() else x).numpy()
    return numbers


def _same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a == b) | (a != a) & (b != b)


def _apart(there: np.ndarray, here: np.ndarray, touched: np.ndarray, allowed: float) -> np.ndarray:
    """Return where numbers differ by more than rounding, for the largest of those ``touched``.

    NaN here is what nobody looks at.
    """
    if here.dtype.kind != "f":
        return there != here
    finite = np.isfinite(here)
    scale = float(np.abs(here[finite & touched]).max(initial=0.0))
    with np.errstate(invalid="ignore"):
        near = np.abs(there - here) <= allowed * scale
    return ~(np.where(finite, near, there == here) | np.isnan(here))


def _left_out(file: str, name: str, text: str) -> str:
    """Name the first line with a store that the compiler leaves out, if there is one."""
    source = Path(file).read_text("utf-8") if Path(file).is_file() else _in_linecache(file)
    kept = lines_of(text, Path(file).name)
    lines = source.splitlines()
    for node in _statements(ast.parse(source), name):
        if not kept.intersection(range(node.lineno, (node.end_lineno or node.lineno) + 1)):
            return f". The compiler leaves its line `{lines[node.lineno - 1].strip()}` out"
    return ""


def _in_linecache(file: str) -> str:
    import linecache

    return "".join(linecache.getlines(file))


def _statements(tree: ast.Module, name: str) -> Iterator[ast.stmt]:
    """Yield the statements of a function, and of those it calls, that store something."""
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    todo, done = [name], set[str]()
    while todo:
        function = functions.get(one := todo.pop(0))
        if function is None or one in done:
            continue
        done.add(one)
        for node in ast.walk(function):
            if isinstance(node, ast.Name):
                todo.append(node.id)
            if isinstance(node, ast.Expr | ast.Assign) and isinstance(node.value, ast.Call):
                called = ast.unparse(node.value.func).rpartition(".")[2]
                if called == "store" or called.startswith("atomic_"):
                    yield node
