"""What the backward pass moves, computes and needs to have kept; see `traffic` for the symbols.

Beside those of the forward there is one more derived symbol: ``Q_rows``, the rows of Q visited,
summed over the key tiles of one head.

Sources: Dao et al., FlashAttention (2022), appendix B.4; lesson 09.
"""

from __future__ import annotations

from typing import Literal

from course_lib.accounting.traffic import LSE_BYTES, Model, Term, derived_counts, positive

PRODUCTS = 5  # S, dP, dV, dK and dQ: what FLOP/s figures count, 2.5 times the forward's
PRODUCTS_WITHOUT_ATOMICS = 7  # S and dP twice: once for dK and dV, once for dQ


def _half(tensor: str, direction: Literal["read", "written"], symbols: str) -> Term:
    return Term(tensor, direction, 1, dict.fromkeys(symbols.split(), 1))


def _float32(tensor: str, direction: Literal["read", "written"], rows: str) -> Term:
    """Return the term of one float32 number a row, whatever the dtype of q is."""
    return Term(tensor, direction, LSE_BYTES, {"H": 1, rows: 1})


_ONE_BY_ONE = (_half("q", "read", "H N_q d b"), _half("do", "read", "H N_q d b"))

backward_compulsory = Model(
    "backward_compulsory",
    "lower bound",
    "Q, K, V, O, dO and lse once, dQ, dK, dV once: the least that any kernel can move",
    (
        *_ONE_BY_ONE,
        _half("k", "read", "H_kv N_k d b"),
        _half("v", "read", "H_kv N_k d b"),
        _half("o", "read", "H N_q d b"),
        _float32("lse", "read", "N_q"),
        _half("dq", "written", "H N_q d b"),
        _half("dk", "written", "H_kv N_k d b"),
        _half("dv", "written", "H_kv N_k d b"),
    ),
)
DELTA = (
    _half("o", "read", "H N_q d b"),
    _half("do", "read", "H N_q d b"),
    _float32("delta", "written", "N_q"),
)
DK_DV = (
    _half("k", "read", "H N_k d b"),
    _half("v", "read", "H N_k d b"),
    _half("q", "read", "H Q_rows d b"),
    _half("do", "read", "H Q_rows d b"),
    _float32("lse", "read", "Q_rows"),
    _float32("delta", "read", "Q_rows"),
    _half("dk", "written", "H N_k d b"),
    _half("dv", "written", "H N_k d b"),
)
DQ = (
    *_ONE_BY_ONE,
    _float32("lse", "read", "N_q"),
    _float32("delta", "read", "N_q"),
    _half("k", "read", "H K_rows d b"),
    _half("v", "read", "H K_rows d b"),
    _half("dq", "written", "H N_q d b"),
)
delta_loads = Model("delta_loads", "upper bound", "delta = rowsum(dO * O), a row at a time", DELTA)
dk_dv_loads = Model(
    "dk_dv_loads",
    "upper bound",
    "keys outside: K and V once, Q, dO, lse and delta again for each key tile that they see",
    DK_DV,
)
dq_loads = Model(
    "dq_loads",
    "upper bound",
    "queries outside: Q, dO, lse and delta once, K and V again for each query tile",
    DQ,
)
backward_tile_loads = Model(
    "backward_tile_loads",
    "upper bound",
    "what three kernels' loads and stores ask for: delta, dK with dV, dQ; no atomics",
    (*DELTA, *DK_DV, *DQ),
)


def backward_flops(
    n_q: int,
    n_k: int,
    d: int,
    heads: int = 1,
    causal: bool = False,
    *,
    products: int = PRODUCTS,
) -> int:
    """Return the FLOPs of the backward by convention: 10 n_q n_k d a head, half if causal.

    That is 2.5 times `attention_flops`. Without atomics a kernel computes 7 products, not 5.
    """
    flops = 2 * products * heads * n_q * n_k * d
    return flops // 2 if causal else flops


def visited_backward_flops(
    n_q: int,
    n_k: int,
    d: int,
    heads: int = 1,
    *,
    block_q: int,
    block_k: int,
    causal: bool = False,
    window: int | None = None,
    products: int = PRODUCTS_WITHOUT_ATOMICS,
) -> int:
    """Return the FLOPs of the visited tiles (clipped to the rows there are), 2 d a pair each."""
    counts = derived_counts(n_q, n_k, block_q, block_k, causal, window)
    return 2 * products * heads * d * counts["visited_pairs"]


def kept_for_backward(
    n: int, *, heads: int = 1, layers: int = 1, batch: int = 1, b: int = 2
) -> dict[str, int]:
    """Return the bytes that training keeps of all layers: ``p`` (naive), or ``lse`` instead.

    (Q, K, V and O are kept either way.) Raises ValueError if a count is not a positive integer.
    """
    positive(n=n, heads=heads, layers=layers, batch=batch, b=b)
    rows = layers * batch * heads * n
    return {"p": rows * n * b, "lse": rows * LSE_BYTES}
