"""Decoding over a cache in pages: lesson 10's kernel, with an address that is looked up.

The kernel is `decode.split_kernel`: with PAGE it loads, for each key of a tile, the number of its
page from the sequence's row of the block table, and then the same rows of K and V as from a cache
in one piece. So pages do not cut traffic: K and V are read once, and the table comes on top. How
many keys a tile has does not depend on the page size.

Source: Kwon et al. 2023 (arXiv:2309.06180, "PagedAttention", section 4.1).
"""

from __future__ import annotations

import torch

from course_lib.kernels.decode import check, check_lengths, launch_splits


def paged_decode(
    q: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    table: torch.Tensor,
    lengths: torch.Tensor,
    *,
    scale: float | None = None,
    splits: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`flash_decode` over a cache that lies in pages anywhere in memory.

    Args:
        q: (B, H, n_q, d), as in `flash_decode`.
        k_pages: (n_pages, H_kv, page_size, d), the pool of pages, of any size; rows contiguous,
            other strides are free (heads may lie behind slots).
        v_pages: like k_pages.
        table: (B, max_pages), int32 or int64: sequence b's i-th page is table[b, i]. Entries
            beyond its length are never used.
        lengths: (B,), int32, at most max_pages * page_size.
        scale: of the scores; default d ** -0.5.
        splits: as in `flash_decode`.

    Returns:
        o and lse, as `flash_decode`.

    Raises:
        TypeError: for dtypes that differ or do not work.
        ValueError: for shapes or devices that do not fit.
    """
    check(q, k_pages, v_pages)
    if k_pages.dim() != 4:
        raise ValueError(
            f"k_pages must have shape (n_pages, H_kv, page_size, d), got {tuple(k_pages.shape)}."
        )
    check_lengths(lengths, q.shape[0])
    if table.dim() != 2 or table.shape[0] != q.shape[0]:
        raise ValueError(
            f"table must have shape ({q.shape[0]}, max_pages), got {tuple(table.shape)}."
        )
    if table.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"table must be int32 or int64, got {table.dtype}.")
    table = table if table.stride(1) == 1 else table.contiguous()
    return launch_splits(q, k_pages, v_pages, lengths, table, scale, splits)
