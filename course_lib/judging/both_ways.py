"""Run a ``torch.autograd.Function`` there and back: the gradient comes once o is known."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from course_lib.judging.spec import Case, Observed


def there_and_back(function: Any, case: Case) -> Generator[Any, tuple[Any, ...], Observed]:
    """Apply ``function`` to a case's inputs, yield o, be sent do; return the gradients.

    (``apply`` takes no keywords: the case's follow the tensors in their order.) ``allocated`` is
    what is still held when ``apply`` has returned, in bytes, beyond the inputs: o, and whatever
    else is kept for the way back. Runs beside the student's code, in its process.
    """
    import torch

    from course_lib.accounting.eager_ledger import EagerLedger

    if not hasattr(function, "apply"):
        return Observed(None)
    leaves = [x.detach().requires_grad_() for x in case.args]
    with EagerLedger() as ledger:
        o = function.apply(*leaves, *case.kwargs.values())
        held = ledger.live_bytes
    (do,) = yield o.detach() if isinstance(o, torch.Tensor) else o
    if not isinstance(o, torch.Tensor):
        return Observed((None,) * len(leaves))
    gradients = torch.autograd.grad(o, leaves, do, allow_unused=True)
    return Observed(gradients, None, held)
