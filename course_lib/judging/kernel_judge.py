"""What is asked of a kernel beyond its numbers: that it ran, what it loaded, what it allocated."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np

from course_lib.accounting.races import NO_LOCKS, READ
from course_lib.judging.alike import bits_of
from course_lib.judging.faults import find_fault
from course_lib.judging.finding import Finding
from course_lib.judging.judges import Judge, array_finding, nan_as_0
from course_lib.judging.spec import STORED, UNDEFINED, Case, Observed
from course_lib.judging.tolerance import as_float64, far_apart
from course_lib.sandbox.inputs import is_tensor

MINUS_INF = 'float("-inf")'  # as a kernel writes it
_FOR_ONE_PROGRAM = 32  # rows or blocks: with more, one that does them all is not just thorough
_NEARLY_ALL = 0.75  # of what is loaded: of two programs with like shares each has half


def in_turn(*judges: Judge) -> Judge:
    """Return a judge that asks each judge in turn and reports the first finding."""

    def judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
        findings = (judge(case, observed, expected) for judge in judges)
        return next((finding for finding in findings if finding), None)

    return judge


def stored_whole(judge: Judge, *names: str, fill: str = "0.0 (for scores -inf)") -> Judge:
    """Return ``judge``, which says so where NaN stands because a kernel stored nothing there.

    Or because it loaded lanes that nothing defines, which should be ``fill``. ``names`` are what
    the results are called in the report: by default `o` and `lse`.
    """

    def ask(case: Case, observed: Observed, expected: Any) -> Finding | None:
        finding = judge(case, observed, expected)
        if finding is None or finding.property != "the values" or observed.ledger is None:
            return finding
        unstored = _stored_in_part(observed, finding.where, names or ("`o`", "`lse`"))
        if unstored:
            return replace(unstored, picture=finding.picture)
        return _undefined(observed, finding, fill)

    return ask


_OF_A_LOGARITHM = 4.0  # the log-sum-exp of 64 numbers around 0: what `relative` is meant for


def float32_judge(
    name: str,
    relative: float,
    axes: tuple[str, ...] = (),
    *,
    of_scores: bool = False,
    logarithm: bool = False,
    fill: str = "0.0",
) -> Judge:
    """Judge one float32 tensor, on whatever device: formal faults, values, was it a kernel.

    ``name`` is what the report calls it; ``axes`` are its dimensions, as far as it has them.
    ``of_scores``: each number is an exponential of the first argument, and as inexact as that.
    ``logarithm``: of a sum, whose relative error is an absolute one here, however near 0 it is.
    ``fill``: what places that do not exist are loaded as, so that they change nothing.
    """

    def judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
        import torch

        scores = as_float64(case.args[0]) if of_scores else np.zeros(1)
        score = 0.0 if far_apart(scores) else float(np.abs(scores).max())
        biggest = float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0))
        return formal_fault(observed.result, expected, torch.float32) or array_finding(
            *nan_as_0(observed.result, expected),
            allowed=(relative + 2.0**-23 * score) * max(biggest, _OF_A_LOGARITHM * logarithm)
            + 1e-12,
            name=name,
            axes=axes[: expected.ndim],
        )

    return in_turn(stored_whole(judge, name, fill=fill), was_launched)


def formal_fault(got: Any, expected: Any, *dtypes: Any) -> Finding | None:
    """Return a formal fault of a tensor (or of a tuple of tensors), on whatever device it is.

    ``dtypes``: one for each tensor, of which the last is that of all others.
    """
    import torch

    several = isinstance(expected, tuple)
    wanted = zip_longest(expected if several else (expected,), dtypes, fillvalue=dtypes[-1])
    likes = [torch.empty(e.shape, dtype=dtype) for e, dtype in wanted]
    parts = got if several and isinstance(got, tuple | list) else [got]
    if len(parts) == len(likes):
        likes = [
            like.to(part.device) if is_tensor(part) else like
            for like, part in zip(likes, parts, strict=True)
        ]
    return find_fault(got, tuple(likes) if several else likes[0])


def _undefined(observed: Observed, finding: Finding, fill: str) -> Finding:
    """Return ``finding``, or if there is NaN and a load has a mask and no ``other``, that."""
    results = observed.result if isinstance(observed.result, tuple | list) else [observed.result]
    if not observed.ledger.undefined or not any(bool(x.isnan().any()) for x in results):
        return finding
    names = ", ".join(f"`{name}`" for name in sorted(observed.ledger.undefined))
    says = (
        f"{finding.says} Loaded with a mask and without `other=`: {names}. What the mask leaves "
        "out is undefined on a GPU, and NaN during a check"
    )
    look = f"write other={fill} into each such load."
    return replace(finding, property=UNDEFINED, says=says, look=look)


def _stored_in_part(observed: Observed, where: str, names: Sequence[str]) -> Finding | None:
    """Return a finding if a result with NaN in it was stored in part only (counted in bytes).

    Not where there is less NaN than was not stored: then that was filled before, and not with NaN.
    """
    results = observed.result if isinstance(observed.result, tuple | list) else [observed.result]
    books = observed.ledger
    tensors = {n: shape for run in books.launches for n, (shape, *_) in run.tensors.items()}
    for name, x in zip(names, results, strict=False):
        if not bool(x.isnan().any()):
            continue
        alike = [n for n, shape in tensors.items() if math.prod(shape) == x.numel()]
        stored = min(filter(None, (books.written.get(n, 0) for n in alike)), default=0)
        size, nan = x.numel() * x.element_size(), int(x.isnan().sum()) * x.element_size()
        if stored < size <= stored + nan:
            return Finding(
                STORED,
                f"only {stored:,} of the {size:,} bytes of {name} are ever stored, and during a "
                "check fresh memory is NaN: are there enough programs, and does each store all "
                "of its rows?",
                where,
            )
        if finding := _head_unstored(name, x, where) or _rows_unstored(
            name, x, alike, books, where
        ):
            return finding
    if any(bool(x.isnan().any()) for x in results[: len(names)]):
        return _passed_on_unstored(books, where)
    return None


def _passed_on_unstored(books: Any, where: str) -> Finding | None:
    """Return a finding if a launch has no program, or loads what kernels stored in part only."""
    fresh = "and during a check fresh memory is NaN."
    if idle := next((run for run in books.launches if 0 in run.grid), None):
        says = f"`{idle.kernel}` is launched with the grid {idle.grid}: nothing is stored by it, "
        return Finding(STORED, f"{says}{fresh} Is the number of tiles rounded up?", where)
    for name, (shape, *_) in {
        k: v for run in books.launches for k, v in run.tensors.items()
    }.items():
        stored = np.zeros((*shape, 1)[-2:] if len(shape) == 1 else (1, *shape)[-2:], dtype=bool)
        visits = [(v.kind, _place(v)) for v in books.visits if v.tensor == name]
        for kind, place in visits:
            if kind == "store":
                stored[place] = True
        if stored.any() and not all(stored[place].all() for kind, place in visits):
            says = f"kernels load from `{name}` what no kernel stored there, "
            return Finding(STORED, f"{says}{fresh} Does each program store all of its rows?", where)
    return None


def _place(visit: Any) -> tuple[slice, slice]:
    """Return which rows and columns a visit touched; of rows that are stored in a piece, all."""
    first, stop = visit.columns
    return slice(*visit.rows), slice(first, stop) if first < stop else slice(None)


def _head_unstored(name: str, x: Any, where: str) -> Finding | None:
    """Return a finding if some heads, but not all, are nothing but NaN."""
    if x.dim() < 3:
        return None
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


def _rows_unstored(
    name: str, x: Any, alike: Sequence[str], books: Any, where: str
) -> Finding | None:
    """Return a finding if rows that are NaN in every head were visited by no store."""
    if x.dim() < 2:
        return None
    rows = x.shape[-2]
    empty = set(x.isnan().all(-1).reshape(-1, rows).all(0).nonzero().ravel().tolist())
    stores = [v for v in books.visits if v.kind == "store" and v.tensor in alike]
    missing = sorted(empty.difference(*(range(*v.rows) for v in stores)))
    if not missing:
        return None
    return Finding(
        STORED,
        f"{len(missing)} of the {rows} rows of {name} are never stored, the first is number "
        f"{missing[0]}, and during a check fresh memory is NaN. Does each program store at its "
        "own row?",
        where,
    )


def gives_every_lane_a_value(may_be: str, fill: str = MINUS_INF) -> Judge:
    """Ask that loads with a mask have ``other``, where NaN, which stands for anything, is hidden.

    ``may_be`` says what an undefined lane may be on a GPU.
    """

    def judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
        if observed.ledger is None or not observed.ledger.undefined:
            return None
        return Finding(
            UNDEFINED,
            "the numbers are right here, but a load has a mask and no `other=`. What the mask "
            f"leaves out is undefined on a GPU: it may be {may_be}.",
            look=f"write other={fill} into the load.",
            numbers_right=True,
        )

    return judge


def was_launched(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask that at least one Triton kernel ran, touched memory, and computed the answer itself."""
    ledger = observed.ledger
    if ledger is None:
        return None
    borrowed = [launch for launch in ledger.launches if launch.module.startswith("course_lib.")]
    if borrowed:
        return Finding(
            "is your own kernel",
            f"the kernel that ran, {borrowed[0].kernel}, belongs to course_lib: write your own.",
        )
    if not (ledger.launches and ledger.total):
        says = "the answer is right, but no Triton kernel computed it"
        return Finding("is a Triton kernel", f"{says}: launch yours, kernel[grid](...).")
    return observed.provenance.finding(observed.result) if observed.provenance else None


def moves_all_itself(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask that launches are given the inputs themselves, and that what they store is the answer.

    For exercises whose kernels copy or turn numbers: PyTorch could do that beside them.
    """
    if observed.origins is None or observed.provenance is None:
        return None
    results = observed.result if isinstance(observed.result, tuple | list) else [observed.result]
    # row after row: a result that crosses from another process lies like that
    stored = {(x.shape, bits_of(x).tobytes()) for x in observed.provenance.sources.written}
    moved = any((x.shape, bits_of(x).tobytes()) not in stored for x in results if is_tensor(x))
    if not observed.origins.copied and not moved:
        return None
    does = "changes what the kernel stored" if moved else "gives the kernel a copy of its input"
    return Finding(
        "moves every number itself",
        f"the numbers are right, but your launcher {does}. Here a kernel is to find each number "
        "where it lies, and to store it where it belongs.",
        look="give the kernel the input itself and its strides, and return what it stores as it "
        "is: no `.contiguous()`, no `pad`, no `.T`, no slice.",
        numbers_right=True,
    )


def in_one_launch(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask that one launch computes all heads of all batches."""
    launches = observed.ledger.launches if observed.ledger else []
    if len(launches) < 2:
        return None
    return Finding(
        "is one launch",
        f"the numbers are right, but your launcher starts {len(launches)} launches, and one is "
        "asked for: a GPU then has the programs of all heads to choose from.",
        look="give the grid a program for each tile of each head of each batch, and let each "
        "program find its own head.",
        numbers_right=True,
    )


def no_race(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask, where kernels are watched for races, that no program changes what another uses."""
    for race in map(str, getattr(observed.ledger, "races", [])):
        held = "Unless that lock holds, one" if NO_LOCKS in race else "One"
        then = (
            "what was loaded may be no longer true"
            if READ in race
            else "the answer depends on which comes first"
        )
        return Finding(
            "does not race",
            f"{race}. {held} of them changes it while the other uses it, so {then}. Here they run "
            "in order; on a GPU they do not.",
        )
    return None


def writes_out(name: str) -> Judge:
    """Ask that a kernel does not call Triton's own ``name``, which is what is to be written."""

    def judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
        if observed.ledger is None or not observed.ledger.borrowed[name]:
            return None
        says = f"the numbers are right, but Triton computed them: `tl.{name}` is what is asked for."
        return Finding("is written out", says, look="write its lines yourself.", numbers_right=True)

    return judge


def several_programs(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask that no program does nearly all where there are many rows, or blocks of a vector.

    That is one that alone stores something, or loads nearly all that no kernel has stored.
    """
    x, books = case.args[0], observed.ledger
    part, parts = ("row", len(x)) if x.dim() > 1 else ("block", len(x) / case.kwargs["block"])
    if books is None or parts <= _FOR_ONE_PROGRAM:
        return None
    loaded: Counter[Any] = Counter()
    for visit in books.visits:
        if visit.kind == "load" and visit.tensor not in books.written:
            loaded[visit.program] += visit.n_bytes
    most = max(loaded.values(), default=0)
    alone = max((len(launch.stored) for launch in books.launches), default=0) == 1
    if not alone and most <= _NEARLY_ALL * loaded.total():
        return None
    says = "one program alone leaves"
    if not alone and len(loaded) > 1:
        says = f"one of {len(loaded)} programs that load anything loads nearly all, and leaves"
    return Finding(
        f"one program per {part}",
        f"{says} the rest of the GPU idle: start one program per {part}.",
    )


def linear_memory(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask of a counted case, where N x N would show, that nothing so large is held."""
    if not case.counted or observed.ledger is None:
        return None
    return too_much_memory(case, observed)


def too_much_memory(case: Case, observed: Observed) -> Finding | None:
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
        f"beside its results your launcher holds {allocated:,} bytes: the scores "
        f"({q.shape[-2]} x {k.shape[-2]}) are never to be written down, not even in part.",
    )


def _launch_bytes(launch: Any) -> int:
    sizes = {"float64": 8, "int64": 8, "float16": 2, "bfloat16": 2, "int8": 1, "bool": 1}
    return sum(
        math.prod(shape) * sizes.get(dtype, 4) for shape, _, dtype in launch.tensors.values()
    )
