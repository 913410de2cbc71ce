"""Run a ``torch.autograd.Function`` there and back: the gradient comes once o is known."""

from __future__ import annotations

import math
import sys
from collections.abc import Generator
from typing import Any

from course_lib.judging.spec import Case, Observed


def _no_circle(o: Any) -> None:
    """Raise TypeError if an attribute of o's ctx holds o, which holds its ctx.

    What such a circle holds is not let go of when nobody needs it any more.
    """
    import torch

    ctx = getattr(o, "grad_fn", None)

    def holds_o(x: Any) -> bool:
        if isinstance(x, dict):
            x = list(x.values())
        if isinstance(x, tuple | list):
            return any(map(holds_o, x))
        return isinstance(x, torch.Tensor) and x.grad_fn is not None and x.grad_fn is ctx

    names = [name for name, x in getattr(ctx, "__dict__", {}).items() if holds_o(x)]
    if names:
        raise TypeError(
            f"ctx.{names[0]} holds o, and o holds ctx: a circle, whose memory nobody lets go of. "
            "What backward needs of tensors goes into ctx.save_for_backward(...), and comes back "
            "as ctx.saved_tensors."
        )


_SMALL = 64  # numbers in the last input: such cases are gone through once more for each input


def _o_of(answer: Any) -> Any:
    return answer[0] if isinstance(answer, tuple) else answer


def _there(function: Any, leaves: list[Any], flags: Any) -> tuple[Any, Any, int]:
    """Apply; return the answer, the o in it, and how many bytes are kept for the way back."""
    from course_lib.accounting.eager_ledger import EagerLedger

    before = _outside_torch(function)
    with EagerLedger() as ledger:
        answer = function.apply(*leaves, *flags)
        held = ledger.live_bytes
    o = _o_of(answer)
    return answer, o, held + _outside_torch(function, o) - before


def _back(function: Any, leaves: list[Any], flags: Any, o: Any, do: Any) -> tuple[Any, ...]:
    """Return the gradients. Raises RuntimeError if o is another then.

    (That do stays is asked of every input.) Of a small case other ways back are gone as well.
    """
    import torch

    before = o.detach().clone()
    gradients = torch.autograd.grad(o, leaves, do, allow_unused=True)
    if not torch.equal(o.detach().nan_to_num(), before.nan_to_num()):
        raise RuntimeError(
            "o is another after backward: it belongs to whoever called, who may need it again. "
            "Write gradients into tensors of your own."
        )
    if len(leaves) > 1 and leaves[-1].numel() <= _SMALL:
        _twice(function, leaves, flags, do, gradients)
        _each_alone(function, leaves, flags, do, gradients)
    return gradients


def _each_alone(
    function: Any, leaves: list[Any], flags: Any, do: Any, gradients: tuple[Any, ...]
) -> None:
    """Raise RuntimeError if an input gets another gradient where no other input needs one."""
    import torch

    for i, wanted in enumerate(gradients):
        inputs = [x.detach() for x in leaves]
        inputs[i].requires_grad_()
        o = _o_of(function.apply(*inputs, *flags))
        (alone,) = torch.autograd.grad(o, inputs[i], do, allow_unused=True)
        if not _alike(alone, wanted):
            raise RuntimeError(
                f"argument {i} gets {'no' if alone is None else 'another'} gradient where it is "
                "the only one that needs one. backward returns one for each argument of forward, "
                "in their order; ctx.needs_input_grad has a flag for each, in the same order."
            )


def _twice(
    function: Any, leaves: list[Any], flags: Any, do: Any, gradients: tuple[Any, ...]
) -> None:
    """Raise RuntimeError if a way back of 100 * do, or one of do after it, gives others."""
    import torch

    o = _o_of(function.apply(*leaves, *flags))
    # scaled, no more: a replay of the launches has to find out what this do was made of; and much,
    # for delta may be near 0
    larger = 100 * do
    first = torch.autograd.grad(o, leaves, larger, retain_graph=True, allow_unused=True)
    before = [None if x is None else x.clone() for x in first]
    try:
        second = torch.autograd.grad(o, leaves, larger.copy_(do), allow_unused=True)  # in its place
    except Exception as error:
        once = "backward was called a second time, as anybody may who keeps the graph"
        error.args = (f"{error} ({once}: retain_graph=True)",)
        raise
    if not all(map(_alike, first, before)):
        raise RuntimeError(
            "the gradients of one call of backward are others after the next (retain_graph=True): "
            "they belong to whoever called. Write each call's into tensors of their own."
        )
    for i, (large, one, wanted) in enumerate(zip(first, second, gradients, strict=True)):
        if large is not None and large.isfinite().all() and not _alike(large / 100, wanted):
            raise RuntimeError(
                f"where do is 100 times as large, the gradient of argument {i} is not: is it made "
                "of this call's do, or kept from a way back before?"
            )
        if not _alike(one, wanted):
            raise RuntimeError(
                f"argument {i} gets {'no' if one is None else 'another'} gradient where backward "
                "is called a second time, with another do (retain_graph=True): what does the first "
                "call leave in ctx?"
            )


def _alike(one: Any, wanted: Any) -> bool:
    """Whether a gradient is as wanted; there may be none where none is."""
    import torch

    if wanted is None or one is None:
        return wanted is None
    return torch.allclose(one, wanted, rtol=1e-2, atol=1e-3, equal_nan=True)


def _no_mask(function: Any, case: Case, held: int) -> None:
    """Raise RuntimeError if more is kept than twice what half as many rows and keys need.

    So what grows with rows times keys is seen, however small it is: a mask, as bits even. (What is
    more than a few copies of the inputs, `keeps_little` tells.)
    """
    (*heads, n_q, _), n_k = case.args[0].shape, case.args[1].shape[-2]
    leaves = [x.detach()[..., : x.shape[-2] // 2, :].contiguous() for x in case.args]
    *_, half = _there(function, [x.requires_grad_() for x in leaves], case.kwargs.values())
    bits = math.prod(heads) * n_q * n_k
    copies = sum(x.numel() * x.element_size() for x in case.args)
    if held <= 2 * copies and held - 2 * half > bits / 32:
        raise RuntimeError(
            f"forward keeps {held:,} bytes for the way back, and {half:,} where there are half as "
            "many queries and keys: that is not linear in N. Is it the mask? One bit for each "
            f"weight is {bits // 8:,} bytes. It is not to be stored: whoever knows seed and place "
            "draws it again."
        )


def _outside_torch(function: Any, o: Any = None) -> int:
    """Return the bytes that no EagerLedger sees: arrays, bytes, lists of numbers.

    Looked at is what o's ctx holds, and what forward can name: globals, the class, defaults.
    (Tensors are counted where they are made; of what is on the way to them, each counts once.)
    """
    import torch

    from course_lib.accounting.within_reach import within_reach

    kept = getattr(getattr(o, "grad_fn", None), "__dict__", {})
    seen, left, total = set[int](), [kept, *within_reach(getattr(function, "forward", None))], 0
    while left:
        x = left.pop()
        if id(x) in seen or isinstance(x, torch.Tensor | type):
            continue
        seen.add(id(x))
        if isinstance(x, dict):
            left += x.values()
        elif isinstance(x, tuple | list | set):
            left += x
        total += max(sys.getsizeof(x), _shown(x))
    return total


def _shown(x: Any) -> int:
    """Return how many bytes of memory an object shows that may not be its own, as a view does."""
    try:
        with memoryview(x) as shown:
            return shown.nbytes
    except (TypeError, ValueError, BufferError):
        return int(getattr(x, "nbytes", 0))


def another_seed(seed: int) -> int:
    """Return a seed that is 1, a bit or a number with many divisors away: 10, 60, 1000, 7 ..."""
    return seed + (1, 5_040_000, 1 << 8, 1 << 24)[seed % 4]


def there_and_back(function: Any, case: Case) -> Generator[Any, tuple[Any, ...], Observed]:
    """Apply ``function`` to a case's inputs, yield o, be sent do; return the gradients.

    (``apply`` takes no keywords: the case's follow the tensors in their order.) ``allocated`` is
    what is still held when ``apply`` has returned, in bytes, beyond the inputs: o, and whatever
    else is kept for the way back. It is applied once more in between, as by a second layer: to the
    inputs, but for the first in another order, and the contrary of each flag. Runs beside the
    student's code, in its process.
    """
    import torch

    if not hasattr(function, "apply"):
        return Observed(None)
    leaves = [x.detach().requires_grad_() for x in case.args]
    flags = case.kwargs.values()
    o, _, held = _there(function, leaves, flags)
    _no_circle(o)
    (do,) = yield o.detach() if isinstance(o, torch.Tensor) else o
    if not isinstance(o, torch.Tensor):
        return Observed((None,) * len(leaves))
    others = (x.detach() for x in (leaves[0], *leaves[:0:-1]))
    function.apply(*others, *(not x if isinstance(x, bool) else x for x in flags))
    return Observed(_back(function, leaves, flags, o, do), None, held)


def with_probes(function: Any, case: Case) -> Generator[Any, tuple[Any, ...], Observed]:
    """Do so with attention that drops weights and returns o and lse; then show which it dropped.

    A case's keywords are causal, rate, seed, block_q and block_k; do comes with ``eyes``, (parts,
    B, H, n_k, d): the columns of an identity. With these as V the output *is* the weights. So it is
    applied to q, k and each of them: as before, with the tile sizes exchanged, and with
    `another_seed`; and to the second half of their columns with everything else another: causal,
    dtype and numbers.
    The way back comes last, after a call of another rate as well. Returned are lse, the gradients,
    and those outputs.
    """
    import torch

    if not hasattr(function, "apply"):
        return Observed(None)
    q, k, _ = leaves = [x.detach().requires_grad_() for x in case.args]
    causal, rate, seed, block_q, block_k = flags = tuple(case.kwargs.values())
    answer, o, held = _there(function, leaves, flags)
    lse = answer[1] if isinstance(answer, tuple) and len(answer) == 2 else None
    _no_circle(o)
    if case.counted:
        _no_mask(function, case, held)
    do, eyes = yield o.detach() if isinstance(o, torch.Tensor) else o
    if not isinstance(o, torch.Tensor) or not isinstance(lse, torch.Tensor):
        return Observed((lse,))
    probes = []
    with torch.no_grad():
        for how in (
            (seed, block_q, block_k),
            (seed, block_k, block_q),
            (another_seed(seed), block_q, block_k),
        ):
            for eye in eyes:
                probes.append(function.apply(q.detach(), k.detach(), eye, causal, rate, *how)[0])
        if len(eyes):
            half_d = q.shape[-1] // 2
            others = [q.detach()[..., half_d:], k.detach()[..., half_d:], eyes[0][..., :half_d]]
            half = torch.float32 if q.dtype == torch.float16 else torch.float16
            others = [x.to(half).contiguous() for x in others]
            shown = function.apply(*others, not causal, rate, seed, block_q, block_k)[0]
            probes.append(shown.to(q.dtype))
            few = [x[:1, :1, :16].contiguous() for x in others]
            function.apply(*few, not causal, (rate + 0.3) % 1, seed + 5, 16, 16)
    gradients = _back(function, leaves, flags, o, do)
    return Observed((lse.detach(), *gradients, *probes), None, held)
