"""What is asked of a kernel beyond its numbers: that it ran, what it loaded, what it allocated."""

from __future__ import annotations

import math
from typing import Any

from course_lib.grading.judges import Judge
from course_lib.grading.spec import Case, Finding, Observed

STORED = "stores every row"


def in_turn(*judges: Judge) -> Judge:
    """Return a judge that asks each judge in turn and reports the first finding."""

    def judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
        findings = (judge(case, observed, expected) for judge in judges)
        return next((finding for finding in findings if finding), None)

    return judge


def stored_whole(judge: Judge) -> Judge:
    """Return ``judge``, which says so where NaN stands because a kernel stored nothing there."""

    def ask(case: Case, observed: Observed, expected: Any) -> Finding | None:
        finding = judge(case, observed, expected)
        if finding is None or finding.property != "the values" or observed.ledger is None:
            return finding
        return _stored_in_part(observed, finding.where) or finding

    return ask


def _stored_in_part(observed: Observed, where: str) -> Finding | None:
    """Return a finding if a result with NaN in it was stored in part only (counted in bytes)."""
    results = observed.result if isinstance(observed.result, tuple | list) else [observed.result]
    books = observed.ledger
    tensors = {n: shape for run in books.launches for n, (shape, *_) in run.tensors.items()}
    for name, x in zip(("`o`", "`lse`"), results, strict=False):
        stored = [books.written.get(n, 0) for n, s in tensors.items() if math.prod(s) == x.numel()]
        most, size = max(stored, default=0), x.numel() * x.element_size()
        if bool(x.isnan().any()) and most < size:
            return Finding(
                STORED,
                f"only {most:,} of the {size:,} bytes of {name} are ever stored, and during a "
                "check fresh memory is NaN: are there enough programs, and does each store all "
                "of its rows?",
                where,
            )
        if finding := _head_unstored(name, x, where):
            return finding
    return None


def _head_unstored(name: str, x: Any, where: str) -> Finding | None:
    """Return a finding if some heads, but not all, are nothing but NaN."""
    empty = x.isnan().flatten(0, 1).flatten(1).all(1)  # (batch * heads,)
    if not empty.any() or empty.all():
        return None
    return Finding(
        STORED,
        f"{name} is NaN all over in {int(empty.sum())} of {len(empty)} heads, and during a check "
        "fresh memory is NaN: perhaps nothing was stored there. Does each program add its own "
        "head's offset?",
        where,
    )


def was_launched(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask that at least one Triton kernel ran and touched memory."""
    ledger = observed.ledger
    if ledger is None:
        return None
    borrowed = [launch for launch in ledger.launches if launch.module.startswith("course_lib.")]
    if borrowed:
        return Finding(
            "is your own kernel",
            f"the kernel that ran, {borrowed[0].kernel}, belongs to course_lib: write your own.",
        )
    if ledger.launches and ledger.total:
        return None
    return Finding(
        "is a Triton kernel",
        "the answer is right, but no Triton kernel computed it: launch yours, kernel[grid](...).",
    )


def flash_traffic(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask of a counted case: Q, O, lse once, K and V once per visited tile, no N x N buffer."""
    if not case.counted or observed.ledger is None:
        return None
    return _too_many_bytes(case, observed.ledger) or _too_much_memory(case, observed)


def _too_many_bytes(case: Case, ledger: Any) -> Finding | None:
    from course_lib.accounting.traffic import flash_tile_loads

    wanted = flash_tile_loads.terms(lse=True, **_shape(case))
    for direction, books in (("loads", ledger.read), ("stores", ledger.written)):
        expected = wanted["read" if direction == "loads" else "written"]
        if sum(books.values()) == sum(expected.values()):
            continue
        lines = [f"{'':8}{'yours':>14}{'expected':>14}  bytes"]
        for name in dict.fromkeys([*expected, *books]):
            lines.append(f"{name:8}{books.get(name, 0):>14,}{expected.get(name, 0):>14,}")
        return Finding(
            "moves only what it must",
            f"the numbers are right, but your kernel's {direction} are not the least: "
            "Q, o and lse once, K and V exactly once per visited tile.",
            "\n".join(lines),
        )
    return None


def _too_much_memory(case: Case, observed: Observed) -> Finding | None:
    """Compare everything allocated beyond o and lse with a bound that is linear in N."""
    q, k = case.args[:2]
    heads = math.prod(q.shape[:-2])
    rows, d = q.shape[-2] + k.shape[-2], q.shape[-1]
    outputs = q.numel() * q.element_size() + 4 * heads * q.shape[-2]
    inputs = sum(x.numel() * x.element_size() for x in case.args[:3])
    launched = max(_launch_bytes(launch) for launch in observed.ledger.launches) - inputs
    allocated = max(launched, observed.allocated or 0) - outputs
    if allocated <= 4 * 4 * heads * rows * d:  # four fp32 copies of the inputs: linear, generous
        return None
    return Finding(
        "needs memory linear in N",
        f"beside o and lse your launcher holds {allocated:,} bytes: the scores "
        f"({q.shape[-2]} x {k.shape[-2]}) are never to be written down, not even in part.",
    )


def _launch_bytes(launch: Any) -> int:
    sizes = {"float64": 8, "int64": 8, "float16": 2, "bfloat16": 2, "int8": 1, "bool": 1}
    return sum(
        math.prod(shape) * sizes.get(dtype, 4) for shape, _, dtype in launch.tensors.values()
    )


def _shape(case: Case) -> dict[str, Any]:
    """Return the traffic model's arguments for a case of q, k, v of shape (B, H, N, d)."""
    q, k = case.args[:2]
    return {
        "n_q": q.shape[-2],
        "n_k": k.shape[-2],
        "d": q.shape[-1],
        "heads": math.prod(q.shape[:-2]),
        "kv_heads": math.prod(k.shape[:-2]),
        "b": q.element_size(),
        "block_q": case.kwargs["block_q"],
        "block_k": case.kwargs["block_k"],
        "causal": bool(case.kwargs.get("causal")),
    }
