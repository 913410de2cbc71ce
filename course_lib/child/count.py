"""``count(function, *arguments)``: what a Triton launcher loads and stores, on any machine.

Where kernels are interpreted it counts here; where they are compiled (a GPU) it copies the
function and its arguments into a child process that interprets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib import _mode
from course_lib.accounting.kernel_ledger import KernelLedger, LedgerUnavailable, OutOfBounds


class CountFailed(RuntimeError):
    """The function raised in the child; the message is its exception, with the line."""


def count(function: Callable[..., Any], *args: Any, **kwargs: Any) -> KernelLedger:
    """Run ``function(*args, **kwargs)`` interpreted and return what its kernels moved.

    Works on a GPU too: there the arguments are copied to the CPU and the function runs in a
    child process (2 to 5 s), so that what it changes in place stays there.

    Args:
        function: launches Triton kernels; on a GPU it must be extractable (see ``extract``).
        *args: its arguments; on a GPU tensors, numbers, strings, None and containers of them.
        **kwargs: likewise.

    Raises:
        LedgerUnavailable: where Triton is not installed.
        OutOfBounds: if a kernel leaves its tensors.
        TypeError: for no function, or a bfloat16 tensor, which the interpreter gets silently wrong.
        CountFailed: on a GPU, if the function raises or the child takes over a minute.
        ValueError: if it launches no kernel.
    """
    if not callable(function):
        raise TypeError(f"function must be a launcher to call, got {type(function).__name__}.")
    mode = _mode.mode()
    if mode == "none":
        raise LedgerUnavailable(
            "count needs Triton, which is not installed here: its lessons run on Linux, WSL or "
            "Colab."
        )
    ledger = (
        _here(function, args, kwargs) if mode == "interpreter" else in_child(function, args, kwargs)
    )
    if not ledger.launches:
        name = getattr(function, "__name__", "the function")
        raise ValueError(f"`{name}` launched no Triton kernel, so there is nothing to count.")
    return ledger


def _here(function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> KernelLedger:
    with KernelLedger() as ledger:
        function(*args, **kwargs)
    return ledger


def in_child(
    function: Callable[..., Any], args: tuple, kwargs: dict[str, Any], timeout: float = 60.0
) -> KernelLedger:
    """Count in a child process, whatever this process's mode; raises as `count` does."""
    from course_lib.child.extract import extract
    from course_lib.child.process import run
    from course_lib.child.trusted_codec import encode_call

    piece = extract(function)
    payload = {"name": piece.name, "call": encode_call(args, kwargs)}
    result = run(piece, f"{__name__}:_task", payload, mode="interpreter", timeout=timeout)
    if result.failure is None:
        return KernelLedger.from_plain(result.value)
    failure = result.failure
    if failure.type == "OutOfBounds":
        raise OutOfBounds(failure.message, **failure.attributes)
    if failure.type == "TypeError" and "bfloat16" in failure.message:
        raise TypeError(failure.message)
    where = "".join(f" (line {f.line}: {f.text})" for f in failure.frames[-1:])
    raise CountFailed(f"{failure.type}: {failure.message}{where}")


def _task(student: Any, payload: dict[str, Any]) -> dict[str, Any]:
    """In the child: rebuild the arguments, run under a ledger, return its books."""
    from course_lib.child.process import call_student
    from course_lib.child.trusted_codec import decode_call

    args, kwargs = decode_call(payload["call"])
    with KernelLedger() as ledger:
        call_student(getattr(student, payload["name"]), *args, **kwargs)
    return ledger.to_plain()
