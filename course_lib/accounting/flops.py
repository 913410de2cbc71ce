"""FLOPs of attention by convention: what ledgers book for an operation that nobody sees into."""

from __future__ import annotations


def attention_flops(n_q: int, n_k: int, d: int, heads: int = 1, causal: bool = False) -> int:
    """Return the FLOPs of forward attention by convention: 4 n_q n_k d a head, half if causal.

    The half is a convention of published TFLOP/s figures, whatever the kernel computed; see
    `traffic.visited_flops` for what tiles compute. Exponentials are not counted.
    """
    flops = 4 * heads * n_q * n_k * d
    return flops // 2 if causal else flops
