"""How a case is run: a plain call, PyTorch under a ledger, or a kernel launcher under guard."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from course_lib import _mode
from course_lib.judging.spec import Case, Exercise, Observed
from course_lib.sandbox.faults import is_tensor


def run_case(exercise: Exercise, function: Callable[..., Any], case: Case) -> Observed:
    """Call ``function`` on ``case`` in the way its exercise needs."""
    if exercise.run is not None:
        return exercise.run(function, case)
    if exercise.kind == "kernel":
        return _run_kernel(function, case)
    if exercise.kind == "torch" and case.counted:
        return _run_counted(function, case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the report says it better
        return Observed(function(*case.args, **case.kwargs))


def _run_counted(function: Callable[..., Any], case: Case) -> Observed:
    from course_lib.accounting.eager_ledger import EagerLedger

    with EagerLedger() as ledger:
        result = function(*case.args, **case.kwargs)
    return Observed(result, ledger)


def _run_kernel(function: Callable[..., Any], case: Case) -> Observed:
    """Run a launcher: interpreted inside guard bands, or compiled for its numbers alone."""
    if _mode.mode() == "gpu":
        return _run_on_gpu(function, case)
    from course_lib.accounting.eager_ledger import EagerLedger
    from course_lib.judging.evidence import Evidence

    allocations = EagerLedger() if case.counted else None
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", RuntimeWarning)  # inf - inf in a kernel: the report says it
        stack.enter_context(unwritten_is_nan())
        if allocations is not None:
            stack.enter_context(allocations)
        ledger = stack.enter_context(Evidence(case.args))
        result = function(*case.args, **case.kwargs)
    return Observed(result, ledger, allocations.peak_bytes if allocations else None)


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


def _run_on_gpu(function: Callable[..., Any], case: Case) -> Observed:
    import torch

    with unwritten_is_nan():
        result = function(*case.args, **case.kwargs)
    torch.cuda.synchronize()
    return Observed(result)


def on_device(exercise: Exercise, inputs: Any) -> Any:
    """Return ``inputs`` with every tensor on the GPU if kernels are compiled here."""
    if exercise.kind != "kernel" or _mode.mode() != "gpu":
        return inputs
    if is_tensor(inputs):
        return inputs.cuda()
    if isinstance(inputs, dict):
        return {key: on_device(exercise, value) for key, value in inputs.items()}
    if isinstance(inputs, list | tuple):
        return type(inputs)(on_device(exercise, value) for value in inputs)
    return inputs
