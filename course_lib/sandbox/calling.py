"""Call a student's function on one input and say what came of it: one way for every host.

A notebook's own process and the sandbox both call here, so that an input, a warning, memory that
nobody wrote, an exception and a changed argument mean the same in `check` and in `course grade`.
"""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from course_lib.child.student_error import MOST_TEXT, Failure
from course_lib.sandbox.inputs import (
    copy_inputs,
    find_reuse,
    find_tampering,
    write_back,
    write_otherwise,
)

MOST_PARTS = 1 << 16  # of a result: values in lists, tuples and dicts, each of which is looked at
SIGNATURE = "signature"  # the kind of an exception that says: it cannot be called like this


@dataclass(frozen=True)
class Called:
    """What a call gave: a result with what was counted beside it, or the failure instead.

    ``tampering`` is (property, sentence) if the inputs were not left alone. ``allocated`` is the
    most memory in bytes that a counted call held at once beyond its inputs.
    """

    result: Any = None
    ledger: Any = None
    allocated: int | None = None
    tampering: tuple[str, str] | None = None
    failure: Failure | None = None
    error: BaseException | None = None  # what `failure` describes, where it happened


@dataclass(frozen=True)
class _Case:
    """A case as far as an unusual way to call (``run``) looks at it."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    counted: bool


def call(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    counted: bool = False,
    kernel: bool = False,
    run: Callable[..., Any] | None = None,
    watched: contextlib.AbstractContextManager[Any] | None = None,
    ask: Callable[[Any], Sequence[Any]] | None = None,
    earlier: list[Any] | None = None,
    rewritten: bool = False,
) -> Called:
    """Call ``function`` and return what came of it; what it raises is in there too.

    Args:
        counted: under a ledger of PyTorch's traffic and memory.
        kernel: it starts Triton kernels: memory that nobody wrote is NaN.
        run: ``run(function, case)``, an unusual way to call it.
        watched: for kernels, what keeps the books of their launches while it runs.
        ask: of a ``run`` that yields a first answer, ``ask(answer)`` returns what is sent into it.
        earlier: what the call before returned, and a copy; kept up to date by `find_reuse`.
        rewritten: a call before finds other numbers in the same memory; it may end as it likes
            (and ends with its first answer, if there is more than one).
    """
    given: dict[Any, Any] = {**dict(zip(_places(function, len(args)), args, strict=True)), **kwargs}
    before = copy_inputs(given)
    if run is None and (complaint := misfit(function, *args, **kwargs)):
        return Called(failure=Failure((SIGNATURE,), complaint[:MOST_TEXT]))
    try:
        with as_in_a_check(kernel):
            if rewritten:
                write_otherwise(given)
                with contextlib.suppress(Exception), _as_if_watched(watched):
                    _begin(function, _Case(args, kwargs, counted=False), run)
                write_back(given, before)
            watched, later = watched or contextlib.nullcontext(), _Later(ask)
            if run is not None:
                with watched as kept:
                    seen = later.finish(run(function, _Case(args, kwargs, counted)))
                result, ledger, allocated = seen.result, seen.ledger or kept, seen.allocated
            else:
                result, ledger, allocated = _measured(function, args, kwargs, counted, watched)
    except BaseException as error:
        return Called(failure=Failure.of(error, function), error=error)
    if has_too_many_parts(result):
        says = (
            f"your result holds more than {MOST_PARTS:,} values in lists, tuples or dicts, and "
            "each would be looked at: return them in an array or a tensor."
        )
        return Called(failure=Failure(("the form",), says))
    tampering = None
    with contextlib.suppress(Exception):  # a result that cannot even be looked at
        tampering = find_tampering(given, before, result)
        tampering = tampering or find_tampering(later.given, later.copied, result)
        if earlier is not None and given:  # what is asked without an input may be a constant
            tampering = tampering or find_reuse(result, earlier)
    result = _as_floats(result)
    return Called(result, None if kernel and watched is None else ledger, allocated, tampering)


def _as_if_watched(watched: Any) -> contextlib.AbstractContextManager[Any]:
    """Return what mends the interpreter as ``watched`` does, and whose books nobody reads."""
    if watched is None:
        return contextlib.nullcontext()
    from course_lib.accounting.kernel_ledger import KernelLedger

    return KernelLedger()


def _begin(function: Callable[..., Any], case: _Case, run: Callable[..., Any] | None) -> None:
    """Call ``function`` in its own way, up to a first answer if there is more than one."""
    running = run(function, case) if run else function(*case.args, **case.kwargs)
    if run and isinstance(running, Generator):
        next(running)


def has_too_many_parts(result: Any) -> bool:
    """Return whether lists, tuples and dicts hold more values than anybody looks at."""
    left, parts = [result], 0
    while left:
        x = left.pop()
        if not isinstance(x, list | tuple | dict):
            continue
        parts += len(x)
        if parts > MOST_PARTS:
            return True
        left += dict.values(x) if isinstance(x, dict) else x
    return False


def _places(function: Callable[..., Any], n: int) -> Sequence[str | int]:
    """Return what a function calls its first n arguments; a number where it has no name."""
    named: list[str] = []
    with contextlib.suppress(Exception):  # it has no signature that can be read
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = inspect.signature(function).parameters.values()
        named = [str(p.name) for p in parameters if p.kind in positional][:n]
    return [*named, *range(len(named) + 1, n + 1)]


class _Later:
    """Inputs that are handed over once a first answer is known."""

    def __init__(self, ask: Callable[[Any], Sequence[Any]] | None) -> None:
        self._ask = ask
        self.given: dict[int, Any] = {}
        self.copied: dict[int, Any] = {}

    def finish(self, running: Generator[Any, tuple[Any, ...], Any] | Any) -> Any:
        """Return what an unusual way to call comes to; a generator is given its later inputs."""
        if self._ask is None or not isinstance(running, Generator):
            return running
        try:
            self.given = dict(enumerate(self._ask(next(running)), 1))
            self.copied = copy_inputs(self.given)
            running.send(tuple(self.given.values()))
        except StopIteration as end:
            return end.value
        raise RuntimeError("a second answer was yielded, and one is asked for")


def _as_floats(result: Any) -> Any:
    """Return a result with Python's exact numbers (a Fraction, a Decimal) as floats."""
    if isinstance(result, tuple | list):  # a namedtuple is one
        return (tuple if isinstance(result, tuple) else list)(map(_as_floats, result))
    if isinstance(result, dict):
        return {key: _as_floats(x) for key, x in result.items()}
    if type(result) in (Fraction, Decimal):
        with contextlib.suppress(OverflowError, ValueError):
            return float(result)
    return result


# Numbers of a result that must have been seen being written: of a pool of pages a short sequence
# is less than the smallest input. An error or a length may be made in Python.
_RESULT = 32


def _measured(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    counted: bool,
    watched: contextlib.AbstractContextManager[Any],
) -> tuple[Any, Any, int | None]:
    """Return (result, ledger, most bytes held at once) of one plain call."""
    if not counted:
        with watched as books:
            return function(*args, **kwargs), books, None
    from course_lib.accounting.eager_ledger import EagerLedger

    with EagerLedger() as eager, watched as books:
        if books is None:  # a kernel writes beside it
            eager.follow((args, dict(kwargs)), least=size_of_smallest(args))
        result = function(*args, **kwargs)
    with contextlib.suppress(Exception):  # a result that cannot even be looked at
        eager.look("the result", result, least=_RESULT)
    return result, eager if books is None else books, eager.peak_bytes


def size_of_smallest(args: tuple[Any, ...]) -> int:
    """Return how many numbers the smallest tensor of floats among the arguments has.

    Lengths, tables and parents are few whole numbers, and masks may be made of them in Python.
    """
    sizes = (x.numel() for x in args if hasattr(x, "numel") and x.is_floating_point())
    return min(sizes, default=1)


def misfit(function: Callable[..., Any], *args: Any, **kwargs: Any) -> str | None:
    """Return why ``function`` cannot be called like this, None if it can.

    Nor can it be called without these names, if its parameters stand in another order than they.
    """
    try:
        signature = inspect.signature(function)
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    except ValueError:  # a builtin without a signature, such as np.array: the call will tell
        return None
    either_way = inspect.Parameter.POSITIONAL_OR_KEYWORD
    theirs = [x for x, p in signature.parameters.items() if p.kind is either_way and x in kwargs]
    asked = [name for name in kwargs if name in theirs]
    if theirs != asked:
        return f"{', '.join(theirs)} stand in another order than {', '.join(asked)}"
    return None


@contextlib.contextmanager
def as_in_a_check(kernel: bool) -> Iterator[None]:
    """Keep warnings quiet; for kernels, unwritten is NaN.

    A report says it better, and above it the path of a file that the student never saw is noise.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with unwritten_is_nan() if kernel else contextlib.nullcontext():
            yield


@contextlib.contextmanager
def unwritten_is_nan() -> Iterator[None]:
    """Make torch fill fresh memory with NaN, so that what a kernel never writes is seen."""
    import torch

    before = torch.are_deterministic_algorithms_enabled()
    _set_deterministic(True)
    try:
        yield
    finally:
        _set_deterministic(before)


def _set_deterministic(on: bool) -> None:
    """Turn torch's deterministic mode on or off; its public setter imports inductor, 1.7 s."""
    import torch

    quick = getattr(torch._C, "_set_deterministic_algorithms", torch.use_deterministic_algorithms)
    quick(on, warn_only=True)


def compact(result: Any) -> Any:
    """Send tensors without the rest of the memory that they are a view of."""
    if isinstance(result, tuple | list):
        return type(result)(map(compact, result)) if type(result) in (tuple, list) else result
    if type(result).__name__ == "Tensor" and hasattr(result, "detach"):
        result = result.detach()
        return result if result.is_contiguous() else result.contiguous()
    return result
