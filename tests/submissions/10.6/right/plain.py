# The plain way: right.diff and wrong.diff are edits of this file.
import torch
import triton
import triton.language as tl


@triton.jit
def merge_kernel(
    o_parts, lse_parts, o, lse, n_splits, HEAD_DIM: tl.constexpr, SPLITS: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    rows = tl.num_programs(0)
    splits = tl.arange(0, SPLITS)
    cols = tl.arange(0, HEAD_DIM)
    at = splits * rows + row
    lse_i = tl.load(lse_parts + at, mask=splits < n_splits, other=float("-inf"))
    has_keys = lse_i > float("-inf")
    m = tl.max(lse_i, 0)
    m_safe = tl.where(m == float("-inf"), 0.0, m)
    weights = tl.exp(lse_i - m_safe)
    total = tl.sum(weights, 0)
    safe = tl.where(total == 0.0, 1.0, total)
    ptrs = o_parts + at[:, None] * HEAD_DIM + cols[None, :]
    o_i = tl.load(ptrs, mask=has_keys[:, None], other=0.0)
    tl.store(o + row * HEAD_DIM + cols, tl.sum(o_i * weights[:, None], 0) / safe)
    tl.store(lse + row, m + tl.log(safe))


def merge_splits(o_parts, lse_parts):
    o_parts, lse_parts = o_parts.contiguous(), lse_parts.contiguous()
    splits, b, h, d = o_parts.shape
    o = torch.empty((b, h, d), dtype=torch.float32, device=o_parts.device)
    lse = torch.empty((b, h), dtype=torch.float32, device=o_parts.device)
    merge_kernel[(b * h,)](
        o_parts,
        lse_parts,
        o,
        lse,
        splits,
        HEAD_DIM=d,
        SPLITS=triton.next_power_of_2(splits),
    )
    return o, lse
