"""Keys in pages: cases whose tables end in garbage, and who looks for a key where.

`Paged` is the truth of decode over pages, or the mistake of somebody who looks elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from course_lib.judging.decode_judge import TRUTH
from course_lib.judging.spec import REMAINDER, Case


class Place(NamedTuple):
    """Whose tokens are looked for: sequence, key head, positions (n,); and among what."""

    batch: int
    head: int
    tokens: Any
    block_k: int
    table: Any  # (B, max_pages)
    n_pages: int
    kv_heads: int
    page_size: int

    def entry(self, index: Any, row: int | None = None) -> Any:
        """Return what the table holds, for this sequence if no other ``row`` is named."""
        row = self.batch if row is None else row
        return self.table.reshape(-1)[(row * self.table.shape[1] + index) % self.table.size]

    def at(self, page: Any = None, slot: Any = None, head: int | None = None) -> Any:
        """Return which rows of all the pool's these are; by default the right ones."""
        page = self.entry(self.tokens // self.page_size) if page is None else page
        slot = self.tokens % self.page_size if slot is None else slot
        head = self.head if head is None else head
        return (page * self.kv_heads + head) * self.page_size + slot


@dataclass(frozen=True)
class Paged:
    """Decode over pages by somebody who ``look``s for keys there, and takes them for ``parts``.

    ``pools`` are where he reads K and V; ``count`` makes of the lengths, and the page size, how
    many keys he takes of each sequence.
    """

    look: Callable[[Place], Any] = Place.at
    parts: Callable[..., Any] = TRUTH
    count: Callable[[list[int], int], list[int]] = lambda lengths, page_size: lengths
    pools: Callable[[Any, Any], Any] = lambda k_pages, v_pages: (k_pages, v_pages)

    def gathered(self, q: Any, k_pages: Any, v_pages: Any, table: Any, lengths: Any, **how: Any):  # type: ignore[no-untyped-def]
        """Return q (B, H, d), and k and v (B, H_kv, n, d) with zeros behind each length."""
        n_pages, kv_heads, page_size, d = k_pages.shape
        taken = self.count(lengths.tolist(), page_size)
        found = []
        for pages in self.pools(k_pages, v_pages):
            rows = pages.reshape(-1, d)
            cache = rows.new_zeros((len(taken), kv_heads, max(taken), d))
            for (batch, head), _ in np.ndenumerate(np.empty(cache.shape[:2])):
                place = Place(batch, head, np.arange(taken[batch]), how.get("block_k", 64),
                              table.numpy(), n_pages, kv_heads, page_size)  # fmt: skip
                cache[batch, head, : taken[batch]] = rows[self.look(place) % len(rows)]
            found.append(cache)
        return q[:, :, 0], *found, lengths.new_tensor(taken)

    def __call__(self, *args: Any, **how: Any) -> Any:
        """Return o (B, H, 1, d) and lse (B, H, 1)."""
        o, lse = self.parts(*self.gathered(*args, **how), **how)
        return o[:, :, None], lse[..., None]


PAGED = Paged()


def in_pages(
    rng: Generator,
    case: Case,
    page_size: int,
    *lengths: int,
    slots: float | None = math.inf,
    wide: str = "int32",
    strided: bool = False,
    shared: int = 0,
    least: int = 0,
) -> Case:
    """Return ``case`` with its keys in pages all over a pool, and ``slots`` where nobody's are.

    slots: None for ordinary numbers. strided: heads behind slots, gaps between pages, a table that
    is part of a wider one, and q every second column. shared: of the first sequence's pages, which
    stand at the front of the others' tables as well. least: so many pages are in the pool at
    least, of which the last ones are used.
    """
    import torch

    q, *kv = case.args
    b, kv_heads, _, d = kv[0].shape
    used = [-(-n // page_size) for n in lengths]
    enough = sum(used) + 3
    n_pages = max(enough, least)
    free = iter((n_pages - enough + rng.permutation(enough)).tolist())
    # what a table holds past its end: pages that would lie right behind the pool
    table = torch.from_numpy(n_pages + rng.integers(0, n_pages // 2, (b, 2 * max(used) + 4)))
    table = table.to(getattr(torch, wide))[:, : max(used) + 2]
    for batch, n in enumerate(used):
        mine = [next(free) for _ in range(n)]
        table[batch, :n] = torch.tensor(mine, dtype=table.dtype)
        table[batch, : min(n, shared)] = table[0, : min(n, shared)]
    pools = []
    for x in kv:
        room = torch.from_numpy(rng.standard_normal((n_pages, page_size + 1, kv_heads, d)))
        room = room.to(x.dtype) if slots is None else torch.full_like(room, slots, dtype=x.dtype)
        pages = room[:, :page_size].transpose(1, 2)
        pages = pages if strided else pages.contiguous()
        for batch, n in reversed([*enumerate(lengths)]):  # what is shared is the first's
            token = torch.arange(n)
            page = table[batch, token // page_size].long()
            pages[page, :, token % page_size] = x[batch, :, :n].transpose(0, 1)
        pools.append(pages)
    q = q.reshape(b, -1, 1, d)
    q = q.repeat_interleave(2, -1)[..., ::2] if strided else q
    block_k = case.kwargs["block_k"]
    shows = case.shows | ({REMAINDER} if any(n % block_k == 1 for n in lengths) else set())
    args = (q, *pools, table if strided else table.contiguous(), torch.tensor(lengths).int())
    return replace(case, args=args, kwargs={"block_k": block_k}, shows=shows)
