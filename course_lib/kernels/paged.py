"""Decoding over a cache in pages: lesson 10's kernel, with an address that is looked up.

The kernel is `decode.split_kernel`: with PAGE it loads, for each key of a tile, the number of its
page from the sequence's row of the block table, and then the same rows of K and V as from a cache
in one piece. So pages do not cut traffic: K and V are read once, and the table comes on top. How
many keys a tile has does not depend on the page size.

For many new rows at once, a prompt or a part of one, `paged_prefill` does the same to the kernel of
`attention_forward`.

Source: Kwon et al. 2023 (arXiv:2309.06180, "PagedAttention", section 4.1).
"""

from __future__ import annotations

import torch

from course_lib.kernels.attention_forward import plain_forward
from course_lib.kernels.attention_op import check_bends, checked_scale
from course_lib.kernels.decode import check, check_lengths, launch_splits
from course_lib.kernels.packed import checked_starts, in_a_batch_of_one
from course_lib.kernels.scores import Extras


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
    table = checked_table(k_pages, table, q.shape[0])
    check_lengths(lengths, q.shape[0])
    return launch_splits(q, k_pages, v_pages, lengths, table, scale, splits)


def paged_prefill(
    q: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    table: torch.Tensor,
    lengths: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    *,
    max_seqlen_q: int | None = None,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    slopes: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Causal attention of each sequence's newest tokens, as many as there are, over its pages.

    No gradients: a cache is not trained.

    Args:
        q: (total_q, H, d), the newest tokens of all sequences, end to end; their keys are in the
            cache already. d as in `flash_attention`.
        k_pages: (n_pages, H_kv, page_size, d), as in `paged_decode`.
        v_pages: like k_pages.
        table: (B, max_pages), as in `paged_decode`.
        lengths: (B,), int32: how many keys each sequence has in all, its newest included.
        cu_seqlens_q: (B + 1,), as in `flash_attention_packed`.
        max_seqlen_q: as there.
        window: as in `flash_attention`, and so are scale, softcap, sinks and slopes.
        scale: of the scores; default d ** -0.5.
        softcap: scores s become softcap * tanh(s / softcap).
        sinks: (H,), float32 or q's dtype.
        slopes: (H,), float32.

    Returns:
        o (total_q, H, d) and lse (H, total_q), as `flash_attention_packed`.

    Raises:
        TypeError: for dtypes that differ or do not work.
        ValueError: for shapes, devices or numbers that do not fit.
    """
    q = in_a_batch_of_one("q", q)
    check(q, k_pages, v_pages)
    batch = len(lengths)
    table = checked_table(k_pages, table, batch)
    check_lengths(lengths, batch)
    if q.shape[1] % k_pages.shape[1]:
        raise ValueError(
            f"k_pages must have a number of heads that divides q's {q.shape[1]}, "
            f"got {k_pages.shape[1]}."
        )
    scale = checked_scale(q, True, window, scale)
    check_bends(q, softcap, sinks, slopes)
    longest = checked_starts("q", cu_seqlens_q, max_seqlen_q, q)
    if len(cu_seqlens_q) != batch + 1:
        raise ValueError(
            f"cu_seqlens_q must have shape ({batch + 1},), got {tuple(cu_seqlens_q.shape)}."
        )
    extra = Extras(sinks, slopes, cu_seqlens_q, None, softcap, longest)
    o, lse = plain_forward(q, k_pages, v_pages, True, window, scale, extra, table, lengths)
    return o[0].transpose(0, 1), lse[0]


def checked_table(k_pages: torch.Tensor, table: torch.Tensor, batch: int) -> torch.Tensor:
    """Return the table with rows in a line; raise one clear sentence for what is none."""
    if k_pages.dim() != 4:
        raise ValueError(
            f"k_pages must have shape (n_pages, H_kv, page_size, d), got {tuple(k_pages.shape)}."
        )
    if table.dim() != 2 or table.shape[0] != batch:
        raise ValueError(f"table must have shape ({batch}, max_pages), got {tuple(table.shape)}.")
    if table.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"table must be int32 or int64, got {table.dtype}.")
    return table if table.stride(1) == 1 else table.contiguous()
