"""What one tile of attention needs on the chip, and the largest tile that fits (lesson 04).

The paper's picture keeps every buffer in shared memory, all in the element type. Real kernels keep
S and O in registers (fp32) and hold several K/V tiles in flight, so only the compiler knows what
one needs; this formula shows what grows with what. Source: Dao et al., FlashAttention
(2022), algorithm 1.
"""

from __future__ import annotations

from math import isqrt

from course_lib.accounting.traffic import positive

STATISTICS_BYTES = 4  # m and l are fp32 whatever the elements are


def tile_bytes(block_q: int, block_k: int, d: int, b: int = 2) -> dict[str, int]:
    """Return the bytes of each buffer of one step, and their ``"total"``.

    Args:
        block_q: query rows. block_k: key rows. d: head dimension. b: bytes per element.

    Returns:
        Keys q, k, v, s, o, statistics (m and l, fp32), total.

    Raises:
        ValueError: if a count is not a positive integer.
    """
    positive(block_q=block_q, block_k=block_k, d=d, b=b)
    buffers = {
        "q": block_q * d * b,
        "k": block_k * d * b,
        "v": block_k * d * b,
        "s": block_q * block_k * b,
        "o": block_q * d * b,
        "statistics": 2 * STATISTICS_BYTES * block_q,
    }
    return {**buffers, "total": sum(buffers.values())}


def largest_square_tile(
    shared_bytes: int, d: int, b: int = 2, *, with_statistics: bool = False
) -> int:
    """Return the largest B with four B x d buffers and one B x B buffer in ``shared_bytes``.

    It solves ``b B^2 + 4 d b B <= shared_bytes``. The statistics (8 B bytes) are left out, as in
    the textbook formula, unless ``with_statistics``. 0 means that not even one row fits.

    Raises:
        ValueError: if a count is not a positive integer.
    """
    positive(shared_bytes=shared_bytes, d=d, b=b)
    linear = 4 * d * b + (2 * STATISTICS_BYTES if with_statistics else 0)
    # B = (-linear + sqrt(linear^2 + 4 b shared)) / 2b, in integers so that no rounding decides.
    return (isqrt(linear * linear + 4 * b * shared_bytes) - linear) // (2 * b)
