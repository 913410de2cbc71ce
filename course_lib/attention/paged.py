"""Decode over a cache in pages: which page holds what is read from a block table (lesson 11).

The keys of all sequences lie in one array of pages, (n_pages, H_kv, page_size, d). A sequence's
block table names its pages in order: entry i is the page with its tokens i * page_size and on, and
token t stands in slot t % page_size of page table[t // page_size]. Entries past the last page in
use mean nothing and are never looked at.

Where a row lies does not change what is computed from it: gathered into rows, it is lesson 10's
decode. Who owns which page is `page_pool`.

Source: Kwon et al. 2023 (arXiv:2309.06180, "PagedAttention", section 4: a page is its "block").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from course_lib.attention.decode import decode, lengths_of


def gather_pages(pages: np.ndarray, table: ArrayLike, length: int) -> np.ndarray:
    """Return one sequence's rows, in order: (H_kv, length, d), a copy of ``pages``' dtype.

    pages is (n_pages, H_kv, page_size, d), ``table`` (max_pages,) the sequence's row of the block
    table. Raises ValueError unless the table names a page that exists for each of ``length``
    tokens.
    """
    n_pages, kv_heads, page_size, d = pages.shape
    used = -(-length // page_size)
    named = np.asarray(table)[:used]
    if len(named) < used or ((named < 0) | (named >= n_pages)).any():
        raise ValueError(
            f"table must name {used} of the pages 0 to {n_pages - 1} for {length} tokens, "
            f"got {named.tolist()}"
        )
    rows = pages[named.astype(int)].swapaxes(0, 1)  # (H_kv, used, page_size, d)
    return rows.reshape(kv_heads, used * page_size, d)[:, :length].copy()


def paged_decode(
    q: np.ndarray,
    k_pages: np.ndarray,
    v_pages: np.ndarray,
    table: ArrayLike,
    lengths: ArrayLike,
    *,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """`decode` over pages: q is (B, H, n_q, d), the pages as in `gather_pages`.

    ``table`` is (B, max_pages), ``lengths`` (B,). Returns o (B, H, n_q, d_v) and the natural-log
    lse (B, H, n_q), as `decode` does. Raises ValueError for what does not fit.
    """
    table = np.asarray(table)
    if table.ndim != 2 or len(table) != len(q):
        raise ValueError(f"table must have shape ({len(q)}, max_pages), got {table.shape}")
    lengths = lengths_of(lengths, len(q), table.shape[1] * k_pages.shape[2])
    k_cache, v_cache = (_caches(pages, table, lengths) for pages in (k_pages, v_pages))
    return decode(q, k_cache, v_cache, lengths, scale=scale)


def _caches(pages: np.ndarray, table: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return (B, H_kv, longest, d): each sequence's rows from its first on, zeros behind them."""
    _, kv_heads, _, d = pages.shape
    caches = np.zeros((len(lengths), kv_heads, lengths.max(initial=0), d), pages.dtype)
    for cache, row, length in zip(caches, table, lengths, strict=True):
        cache[:, :length] = gather_pages(pages, row, length)
    return caches
