"""The judge of everything that computes attention: formal faults, then o, then lse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from course_lib.judging import faults
from course_lib.judging.finding import Finding
from course_lib.judging.judges import Judge, array_finding
from course_lib.judging.spec import Case, Observed
from course_lib.judging.tolerance import (
    DOUBLE,
    IN_DOUBLE,
    allowed_error,
    as_float64,
    output_rounding,
    score_rounding,
)


def attention_truth(q: Any, k: Any, v: Any, *, causal: bool = False, **_tiles: Any) -> Any:
    """Return (o, lse) in float64 on the already rounded inputs."""
    from course_lib.attention.truth import attention_float64

    return attention_float64(q, k, v, causal=causal)


def output_only(truth: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return o of (o, lse), for exercises that return only that."""
    return truth[0]


def attention_judge(
    *, with_lse: bool, in_dtype: bool, eager: Callable[[Case], Any] | None = None
) -> Judge:
    """Return a judge for o, or for (o, lse) if ``with_lse``.

    ``in_dtype``: inputs are tensors, and the result must have their dtype and device (lse:
    float32); the allowed error follows that dtype. Otherwise NumPy in float64, judged as such.
    ``eager`` gives o of a case as eager PyTorch computes it; by default plain attention.
    """

    def judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
        o_true, lse_true = expected
        like = _like(case, o_true, lse_true) if in_dtype else (o_true, lse_true)
        got = observed.result
        if fault := faults.find_fault(got, like if with_lse else like[0]):
            return fault
        o, lse = got if with_lse else (got, None)
        axes = ("batch", "head", "row", "column") if o_true.ndim == 4 else ()
        finding = array_finding(
            o,
            o_true,
            allowed=_allowed(case, o_true, in_dtype, eager or eager_output),
            name="`o`",
            axes=axes,
            block_q=case.kwargs.get("block_q"),
        )
        finding = finding or _of_no_key(o, lse_true, axes)
        if finding or lse is None:
            return finding
        allowed = lse_rounding(*case.args[:2]) if in_dtype else 1e-5
        return array_finding(lse, lse_true, allowed=allowed, name="`lse`", axes=axes[:-1])

    return judge


def _of_no_key(o: Any, lse_true: np.ndarray, axes: tuple[str, ...]) -> Finding | None:
    """Ask that rows without a key, which nothing is rounded in, are 0 to the last bit."""
    rows = np.where(np.isneginf(lse_true)[..., None], as_float64(o), 0.0)
    return array_finding(rows, np.zeros_like(rows), allowed=0.0, name="`o`", axes=axes)


def _like(case: Case, o_true: np.ndarray, lse_true: np.ndarray) -> tuple[Any, Any]:
    """Return tensors with the shapes, dtypes and device that o and lse must have."""
    import torch

    q = case.args[0]
    return (
        torch.empty(o_true.shape, dtype=q.dtype, device=q.device),
        torch.empty(lse_true.shape, dtype=torch.float32, device=q.device),
    )


def _allowed(case: Case, o_true: np.ndarray, in_dtype: bool, eager: Callable[[Case], Any]) -> float:
    if not in_dtype:
        largest = float(np.abs(o_true).max(initial=0.0))
        q, k, v = case.args[:3]
        return IN_DOUBLE * largest + 4 * output_rounding(q, k, v, DOUBLE)
    dtype = str(case.args[0].dtype).removeprefix("torch.")
    allowed = allowed_error(o_true, as_float64(eager(case)), dtype)
    return allowed + (output_rounding(*case.args[:3]) if dtype == "float32" else 0.0)


def lse_rounding(q: Any, *keys: Any) -> float:
    """Return what lse may be off by, which every weight that is made of it is off by in itself.

    Half inputs: what sums up weights that are rounded for `tl.dot` is as inexact as they. float32:
    near -20000 one bit of a score is 2e-3.
    """
    if q.element_size() != 4:
        return 1e-3
    return 1e-4 + max((score_rounding(q, k, 1.0) for k in keys), default=0.0)


def eager_output(case: Case) -> Any:
    """Return plain PyTorch attention in the inputs' own dtype; empty rows are 0.

    Scores of half inputs stay float32, as in every kernel (``tl.dot`` makes them so): a score of
    50 that is rounded to float16 is off by 0.015, and so is all that it weighs.
    """
    import torch

    q, k, v = case.args[:3]
    causal = bool(case.kwargs.get("causal"))
    if q.dim() > 2 and (group := q.shape[-3] // k.shape[-3]) > 1:
        k, v = k.repeat_interleave(group, -3), v.repeat_interleave(group, -3)
    scores = q.float() @ k.float().transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        n_q, n_k = scores.shape[-2:]
        hidden = torch.ones(n_q, n_k, dtype=torch.bool, device=q.device).triu(n_k - n_q + 1)
        scores = scores.masked_fill(hidden, -torch.inf)
    return torch.nan_to_num(torch.softmax(scores, -1)).to(v.dtype) @ v
