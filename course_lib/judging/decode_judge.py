"""How a decode kernel is judged: cases, the truth, the judge, mistakes (10.4, 10.5, 10.7, 11.3).

Each program attends with the heads of one group, the rows of a tile, to a share of one sequence's
keys: 10.4 and 11.3 to all of them, 10.5 to a run, 10.7 to as much of a run as the sequence fills.
So one function, `Parts`, is the truth of all, and with another share or another attention it is
somebody's mistake. Where the keys lie in pages (11.3) they are gathered before they come here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging import cases as draw
from course_lib.judging.attention_judge import attention_truth, lse_rounding
from course_lib.judging.finding import Finding
from course_lib.judging.judges import Judge, array_finding
from course_lib.judging.kernel_judge import (
    formal_fault,
    in_turn,
    no_race,
    stored_whole,
    was_launched,
)
from course_lib.judging.least import Least, counted
from course_lib.judging.mask_mistakes import NOT_HIDDEN
from course_lib.judging.misconceptions import attention_mistakes, streaming_slips
from course_lib.judging.spec import REMAINDER, STORED, Case, Mistake, Observed
from course_lib.judging.tolerance import allowed_error, as_float64, output_rounding

ROWS = 16  # the least that tl.dot takes: every group here fits
ONCE = "reads each cached number once"
Share = Callable[..., Any]  # (split, splits, n, length, block_k) -> the numbers of its keys


def run(split: int, splits: int, n: int, length: int, _block_k: int) -> np.ndarray:
    """Return split's keys: of n in runs of ceil(n / splits), those before ``length``."""
    share = -(-n // splits)
    return np.arange(split * share, max(split * share, min((split + 1) * share, length)))


def asked(case: Case) -> tuple[list[int], int]:
    """Return each sequence's length, and the number of splits, of a case of any of the three."""
    _, k, _, *lengths = case.args
    filled = lengths[0].tolist() if lengths else [k.shape[2]] * k.shape[0]
    return filled, case.kwargs.get("splits", 1)


@dataclass(frozen=True)
class Parts:
    """What a launcher returns whose programs ``attend`` to the keys that ``share`` gives them.

    attend: (q (B, H_kv, group, d), k, v, block_q=, block_k=) -> (o, lse). empty: o and lse of a
    program without a key. placed: the parts' numbers, as somebody stores them in another order.
    read, back: q as somebody packs it, and o or lse as he brings it back, (B, H_kv, group, ...).
    """

    attend: Callable[..., Any] = attention_truth
    share: Share = run
    empty: tuple[float, float] = (0.0, -math.inf)
    placed: Callable[..., Any] | None = None
    read: Callable[[Any], Any] = lambda q: q
    back: Callable[[Any], Any] = lambda x: x

    def __call__(
        self, q: Any, k: Any, v: Any, *filled: Any, splits: int = 0, block_k: int = 64
    ) -> Any:
        """Return o and lse, or the parts of them: (splits, B, H, d) and (splits, B, H)."""
        whole, splits = not splits, splits or 1
        lengths, _ = asked(Case("", (q, k, v, *filled)))
        (b, h, d), (kv_heads, n) = q.shape, k.shape[1:3]
        packed = self.read(q.reshape(b, kv_heads, h // kv_heads, d))
        o, lse = np.full((splits, b, h, d), self.empty[0]), np.full((splits, b, h), self.empty[1])
        alike = len({*lengths}) == 1
        for split in range(splits):
            for first in range(1 if alike else b):
                mine = np.s_[:] if alike else np.s_[first : first + 1]
                keys = self.share(split, splits, n, lengths[first], block_k)
                if not len(keys):
                    continue
                tiles = {"block_q": ROWS, "block_k": block_k}
                found = self.attend(packed[mine], k[mine][:, :, keys], v[mine][:, :, keys], **tiles)
                o[split, mine], lse[split, mine] = (
                    as_float64(x).reshape(y[split, mine].shape)
                    for x, y in zip(found, (o, lse), strict=True)
                )
        o, lse = (
            np.stack([self.back(one.reshape(packed.shape[:3] + one.shape[2:])) for one in x])
            .reshape(x.shape)
            for x in (o, lse)
        )  # fmt: skip
        if self.placed:
            o, lse = self.placed(o, kv_heads), self.placed(lse, kv_heads)
        return (o[0], lse[0]) if whole else (o, lse)


TRUTH = Parts()


def decode_case(case: Case, *lengths: Any, **splits: int) -> Case:
    """Return a case of q (B, H, d) of a launch whose n_q is the group's size."""
    (q, k, v), block_k = case.args, case.kwargs["block_k"]
    share = -(-k.shape[2] // splits.get("splits", 1))
    shows = case.shows | ({REMAINDER} if share % block_k == 1 else set())
    q = q.reshape(q.shape[0], -1, q.shape[-1])
    if not k.is_contiguous():  # then q is every second column of a wider table
        q = q.repeat_interleave(2, -1)[..., ::2]
    kwargs = {**splits, "block_k": block_k}
    return replace(case, args=(q, k, v, *lengths), kwargs=kwargs, shows=shows)


def half_launches(rng: Generator) -> list[Case]:
    """Return launches in which O, alpha, scores, l or weights are off that float16 cannot hold."""
    name = "float16, 1024 keys of equal weight, values near 1500"
    return [
        draw.launch(rng, name, 3, 1024, 16, values_near=1500, dtype="float16", tiles=(ROWS, 64)),
        draw.launch(rng, draw.FAINT_NAME, 3, 1024, 16, peak=draw.FAINT, dtype="float16",
                    tiles=(ROWS, 16)),
        draw.fine_launch(rng, 1024, tiles=(ROWS, 16)),
        draw.one_tile_higher(rng, 3),
    ]  # fmt: skip


# Judging -----------------------------------------------------------------------------------------


def _eager(q: Any, k: Any, v: Any, **_tiles: int) -> Any:
    """Attend in the inputs' dtype, with scores in float32, as `tl.dot` makes them."""
    import torch

    s = q.float() @ k.float().mT * q.shape[-1] ** -0.5
    return torch.softmax(s, -1).to(v.dtype) @ v, torch.logsumexp(s, -1)


def numbers(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Judge o and lse of a decode kernel, or the parts of them: their form, then their values."""
    import torch

    q, k, v = case.args[:3]
    of_parts = "splits" in case.kwargs
    o, lse = observed.result if isinstance(observed.result, tuple | list) else (None, None)
    dtype = torch.float32 if of_parts else q.dtype
    if fault := formal_fault(observed.result, expected, dtype, torch.float32):
        return fault
    eager = Parts(_eager)(*case.args, **case.kwargs)[0]
    allowed = allowed_error(expected[0], eager, str(q.dtype).removeprefix("torch."))
    seen = [k[b, :, :n] for b, n in enumerate(asked(case)[0]) if n]  # nobody knows the padding
    if q.element_size() == 4:
        values = [v[b, :, :n] for b, n in enumerate(asked(case)[0]) if n]
        queries = q.reshape(q.shape[0], k.shape[1], -1, q.shape[-1])
        allowed += max(
            output_rounding(one, *kv) for one, *kv in zip(queries, seen, values, strict=False)
        )
    axes = ("split", "batch", "head", "column")[0 if of_parts else 1 :]
    names = ("`o_parts`", "`lse_parts`") if of_parts else ("`o`", "`lse`")
    return (
        array_finding(o, expected[0], allowed=allowed, name=names[0], axes=axes)
        or array_finding(
            lse, expected[1], allowed=lse_rounding(q, *seen), name=names[1], axes=axes[:-1]
        )
        or (_rounded_parts(o, expected[0], q.dtype) if of_parts else None)
    )


def _rounded_parts(o: Any, truth: np.ndarray, dtype: Any) -> Finding | None:
    """Ask that parts are float32 in their numbers, too: not one is what the inputs' type holds."""
    wanted = o.new_tensor(truth)
    if (wanted.to(dtype) == wanted).all() or not (o.to(dtype) == o).all():
        return None
    name = str(dtype).removeprefix("torch.")
    return Finding(
        "parts in float32",
        f"every number of `o_parts` is one that {name} holds: they are rounded on their way. The "
        "merge adds them up, so parts stay float32.",
        look=f"what turns a part into {name} before it is stored?",
        numbers_right=True,
    )


def least(case: Case) -> Least:
    """Each tile of queries once in each split, each cached number once; all that is returned once.

    (A launcher may pad the tile of queries: then its idle rows are loaded, too.)
    """
    q, k = case.args[:2]
    (lengths, splits), block_k = asked(case), case.kwargs["block_k"]
    (b, h, d), kv_heads = q.shape, k.shape[1]
    shares = [
        len(run(split, splits, k.shape[2], length, block_k))
        for length in lengths
        for split in range(splits)
    ]
    tiles = sum(-(-share // block_k) for share in shares)
    whole = kv_heads * d * tiles * block_k
    keys = kv_heads * d * sum(shares) if case.counted else whole
    return Least(
        rule="each row of k and v is loaded once, for all the heads that share it, and what is "
        "returned is stored once",
        loads={"q": splits * b * kv_heads * ROWS * d, "k": keys, "v": keys},
        stores=splits * b * h * (d + 1),
        tiles=dict.fromkeys(("k", "v"), (f"block_k={block_k}", block_k * d)),
        flops=4 * kv_heads * tiles * ROWS * block_k * d,
        idle=False,
        properties=dict.fromkeys(("k", "v"), ONCE),
        unmasked=dict.fromkeys(("k", "v"), whole),
        share=("a group of heads of one split", h // kv_heads * (d + 1)),
    )


def one_launch(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask for one launch, with a program for each split of each batch and key head."""
    if observed.ledger is None:
        return None
    launches = observed.ledger.launches
    k = case.args[1]
    wanted = asked(case)[1] * k.shape[0] * k.shape[1]
    if len(launches) == 1 and math.prod(launches[0].grid) == wanted:
        return None
    programs = " + ".join(str(math.prod(launch.grid)) for launch in launches)
    where = "one launch" if len(launches) == 1 else f"{len(launches)} launches"
    each = f"{'split of each ' if 'splits' in case.kwargs else ''}key head of each batch"
    return Finding(
        "one launch, one program for each part",
        f"the numbers are right, but {programs} programs ran in {where}: one "
        f"launch of {wanted} is meant, one program for each {each}.",
        numbers_right=True,
    )


def stored_once(judge: Judge) -> Judge:
    """Return ``judge``, which says of NaN that nothing was stored there, unless all was stored.

    All was: as much as there is, and nothing twice. Then NaN was computed: 0 / 0, or of padding.
    """
    in_part = stored_whole(judge, "`o`", "`lse`")

    def ask(case: Case, observed: Observed, expected: Any) -> Finding | None:
        finding, books = in_part(case, observed, expected), observed.ledger
        if finding is None or finding.property != STORED:
            return finding
        size = sum(x.numel() * x.element_size() for x in observed.result)
        whole = sum(books.written.values()) >= size and not getattr(books, "races", [])
        return judge(case, observed, expected) if whole else finding

    return ask


def _no_race(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask for no race; say of programs that are too many that they are, which is why they race."""
    race = no_race(case, observed, expected)
    return race and (one_launch(case, observed, expected) or race)


JUDGE: Judge = in_turn(stored_once(numbers), was_launched, _no_race, counted(least), one_launch)


# Mistakes ----------------------------------------------------------------------------------------


def _from_number(q: Any) -> Any:
    """Return the rows that begin at the key head's number, not at number * group."""
    (b, kv_heads, group, d) = q.shape
    first = np.arange(b * kv_heads)[:, None]
    return q.reshape(-1, d)[first + np.arange(group)].reshape(q.shape)


def _every_other(x: Any) -> Any:
    """Return heads that belong to key head h % H_kv as if neighbours did."""
    return x.reshape(x.shape[0], x.shape[2], x.shape[1], *x.shape[3:]).swapaxes(1, 2)


def _turned_back(x: Any) -> Any:
    b, kv_heads, group = x.shape[:3]
    return x.swapaxes(1, 2).reshape(b, kv_heads, group, *x.shape[3:])


def _first_member(q: Any) -> Any:
    return q[:, :, :1].expand(q.shape)


_SHARE = "neighbours share: query heads kv_head * group to kv_head * group + group - 1 are one tile"
OF_PACKING = (
    Mistake("the wrong heads share", f"{_SHARE}.", Parts(read=_every_other, back=_turned_back)),
    Mistake("the wrong heads share", f"{_SHARE}.", Parts(read=_every_other)),
    Mistake(
        "the group's first head is not found",
        "the heads of key head number i begin at head i * group, not at i: each row of q has "
        "head_dim numbers, and each key head has group rows.",
        Parts(read=_from_number),
    ),
    Mistake(
        "every row is the group's first head",
        "the rows of the tile are the members of the group: row r is head kv_head * group + r.",
        Parts(read=_first_member),
    ),
)

_NOT_HERE = {"the loop ends at n_q", "one length for Q and K"}
_LOOPS = {one.name for one in streaming_slips()} | {"the last tile is dropped"}


def _with_idle_rows(attend: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``attend`` on tiles of `ROWS` rows: a group, and rows of 0."""

    def filled_up(q: Any, k: Any, v: Any, **tiles: int) -> Any:
        import torch

        group = q.shape[2]
        idle = q.new_zeros((*q.shape[:2], ROWS - group, q.shape[3]))
        o, lse = attend(torch.cat([q, idle], 2), k, v, **tiles)
        return o[:, :, :group], lse[:, :, :group]

    return filled_up


def _of_the_loop() -> tuple[Mistake, ...]:
    """Return the shared mistakes of the recurrence."""
    names = frozenset((_LOOPS | {"start is added twice", NOT_HIDDEN}) - _NOT_HERE)
    made = attention_mistakes(with_lse=True, dtype=np.float32, without_masks=names)
    parts = [(one, Parts(_with_idle_rows(one.model))) for one in made]
    for one, of_some in list(parts):
        loop = one.model.slip.loop  # type: ignore[attr-defined]
        if np.isfinite(loop.start):  # which is the lse of a part without a key, too
            parts.append((one, replace(of_some, empty=(0.0, loop.start))))
        if loop.one_max:  # of idle rows that repeat a head of the group
            parts.append((one, Parts(one.model)))
    return tuple(Mistake(one.name, one.says, part) for one, part in parts)


OF_THE_LOOP = _of_the_loop()
