# Loads a part only if its lse says that it has keys: where all are empty, none.
import torch
import triton
import triton.language as tl


@triton.jit
def merge_kernel(
    o_parts, lse_parts, o, lse, n_splits, HEAD_DIM: tl.constexpr, SPLITS: tl.constexpr
):
    row = tl.program_id(0)  # of all B * H
    rows = tl.num_programs(0)
    splits = tl.arange(0, SPLITS)  # (splits,), of which n_splits are parts
    cols = tl.arange(0, HEAD_DIM)  # (head_dim,)
    at = splits * rows + row  # where each part's number, or row of numbers, stands
    real = splits < n_splits
    lses = tl.load(lse_parts + at, mask=real, other=float("-inf"))
    m = tl.max(lses, 0)
    m_safe = tl.where(m == float("-inf"), 0.0, m)
    w = tl.exp(lses - m_safe)
    total = tl.sum(w, 0)
    safe = tl.where(total == 0.0, 1.0, total)
    has_keys = (lses > float("-inf"))[:, None]
    where = o_parts + at[:, None] * HEAD_DIM + cols[None, :]
    parts = tl.load(where, mask=has_keys, other=0.0)
    parts = tl.where(w[:, None] > 0.0, parts, 0.0)
    result = tl.sum(w[:, None] * parts, 0) / safe
    tl.store(o + row * HEAD_DIM + cols, result)
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
