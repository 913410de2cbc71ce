"""Decode in NumPy: the newest few tokens against a long cache, whole or in parts (lesson 10).

A cache has room for n_max keys, of which a sequence fills the first ``length``; the last n_q of
those are the newest tokens themselves. So positions are aligned at the END: query i stands at
length - n_q + i, sees all that is older, of the newest tokens those that it comes after (a chain),
or, where they are drafts that branch, its ancestors (a tree), and itself.

The heads that share a key head stand as rows of one matrix, so that each cached row is used by all
of them where it lies: nothing is repeated.

Sources: Dao et al. 2023 ("Flash-Decoding": splits and their merge); Milakov & Gimelshein 2018 (why
the merge is exact); Miao et al. 2023 (arXiv:2305.09781, section 4: the tree of drafts).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from course_lib.attention._shapes import check_block, check_qkv
from course_lib.attention.online_softmax import finite_max
from course_lib.attention.tiled import tile_slices


def decode(
    q: np.ndarray,
    k_cache: np.ndarray,
    v_cache: np.ndarray,
    lengths: ArrayLike | None = None,
    *,
    parents: Sequence[int] | None = None,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Attention of every sequence's newest n_q tokens over its cache, which holds them already.

    q is (B, H, n_q, d), the caches (B, H_kv, n_max, d) and (B, H_kv, n_max, d_v); H_kv divides H.
    ``lengths`` (B,) says how many rows of its cache each sequence fills, None: all of them.
    ``parents`` makes the newest tokens a tree, see `ancestors`; None: a chain, causal. ``scale``
    None means 1/sqrt(d).

    Returns o (B, H, n_q, d_v) and the natural-log lse (B, H, n_q), float32, or float64 if an input
    is. A query without any key has o = 0 and lse = -inf. Raises ValueError for what does not fit.
    """
    parts = split_decode(q, k_cache, v_cache, lengths, splits=1, parents=parents, scale=scale)
    return merge_parts(*parts)


def split_decode(
    q: np.ndarray,
    k_cache: np.ndarray,
    v_cache: np.ndarray,
    lengths: ArrayLike | None = None,
    *,
    splits: int,
    parents: Sequence[int] | None = None,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """`decode` in parts, not merged: part i has seen the keys of split i (see `split_slices`) only.

    Returns o_parts (splits, B, H, n_q, d_v), each part divided by its own sum, and lse_parts
    (splits, B, H, n_q). A part without any key is the identity: o = 0 and lse = -inf.
    """
    group = check_qkv(q, k_cache, v_cache)
    if q.ndim != 4:
        raise ValueError(f"q must have shape (B, H, n_q, d), got {q.shape}")
    batch, heads, n_q, d = q.shape
    n_max, d_v = v_cache.shape[-2:]
    scale = 1 / math.sqrt(d) if scale is None else float(scale)
    lengths = lengths_of(lengths, batch, n_max)
    filled = np.arange(n_max) < lengths[:, None]  # (B, n_max)
    v_cache = np.where(filled[:, None, :, None], v_cache, 0)  # 0 times what lies there may be NaN
    seen = who_sees(lengths, n_q, n_max, parents)
    seen = np.tile(seen, (1, group, 1))[:, None]  # (B, 1, group n_q, n_max)

    state = np.result_type(q, k_cache, v_cache, np.float32)
    packed = q.astype(state).reshape(batch, heads // group, group * n_q, d)
    o_parts = np.zeros((splits, *packed.shape[:-1], d_v), state)
    lse_parts = np.zeros((splits, *packed.shape[:-1]), state)
    for part, keys in enumerate(split_slices(n_max, splits)):
        s = scale * (packed @ k_cache[..., keys, :].astype(state).mT)  # (B, H_kv, group n_q, keys)
        s = np.where(seen[..., keys], s, -np.inf)
        m = s.max(axis=-1, initial=-np.inf)
        p = np.exp(s - finite_max(m)[..., None])
        l_sum = p.sum(axis=-1)
        l_sum = np.where(l_sum == 0, 1, l_sum)  # no key at all: 0 / 1, and -inf + 0
        o_parts[part] = p @ v_cache[..., keys, :].astype(state) / l_sum[..., None]
        lse_parts[part] = m + np.log(l_sum)
    rows = (splits, batch, heads, n_q)
    return o_parts.reshape(*rows, d_v), lse_parts.reshape(rows)


def merge_parts(o_parts: np.ndarray, lse_parts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Merge parts (P, ..., d_v) and (P, ...) along axis 0: o (..., d_v) and lse (...).

    A part's o is divided already, so the whole weight it stands for is exp(lse): each counts
    exp(lse_i - lse), and these weights add up to 1. Empty parts (lse = -inf) count nothing.
    """
    m = lse_parts.max(axis=0, initial=-np.inf)  # (...)
    weights = np.exp(lse_parts - finite_max(m))  # (P, ...)
    total = weights.sum(axis=0)
    total = np.where(total == 0, 1, total)  # nobody saw a key
    return (weights[..., None] * o_parts).sum(axis=0) / total[..., None], m + np.log(total)


def split_slices(n: int, splits: int) -> list[slice]:
    """Cut rows 0 .. n - 1 into ``splits`` runs of ceil(n / splits).

    The last that holds rows may be shorter, and those behind it are empty (7 rows in 5 splits:
    2, 2, 2, 1, 0). Raises ValueError unless there is a split at least.
    """
    check_block("splits", splits)
    full = list(tile_slices(n, max(1, -(-n // splits))))
    return full + [slice(n, n)] * (splits - len(full))


def ancestors(parents: Sequence[int]) -> np.ndarray:
    """Return bool (n_q, n_q): is token j token i itself, or on the way from i back to the cache?

    ``parents[i]`` is the number of the token that token i continues, smaller than i, or -1 where
    it continues the cache. ``[-1, 0, 1]`` is a chain of three; ``[-1, 0, 0]`` has two guesses for
    what follows token 0. Raises ValueError for a parent that does not come before its child.
    """
    seen = np.eye(len(parents), dtype=bool)
    for child, parent in enumerate(parents):
        if not -1 <= parent < child:
            raise ValueError(
                f"parents[{child}] must be from -1 to {child - 1}: a parent comes before its "
                f"child; got {parent}"
            )
        if parent >= 0:
            seen[child] |= seen[parent]
    return seen


def who_sees(
    lengths: np.ndarray, n_q: int, n_max: int, parents: Sequence[int] | None = None
) -> np.ndarray:
    """Return bool (B, n_q, n_max): may query i of sequence b look at row j of its cache?

    Raises ValueError unless there is one parent for each of the n_q newest tokens.
    """
    parents = range(-1, n_q - 1) if parents is None else parents
    if len(parents) != n_q:
        raise ValueError(f"parents must name one for each of {n_q} queries, got {len(parents)}")
    newest = np.arange(n_max) - (lengths[:, None] - n_q)  # (B, n_max): < 0 is older than all
    is_new = (newest >= 0) & (newest < n_q)
    family = ancestors(parents)[:, np.where(is_new, newest, 0)]  # (n_q, B, n_max)
    return ((newest < 0) | (is_new & family)).swapaxes(0, 1)


def lengths_of(lengths: ArrayLike | None, batch: int, n_max: int) -> np.ndarray:
    """Return ``lengths`` as an array (B,), n_max each where None.

    Raises ValueError unless they are B whole numbers from 0 to n_max.
    """
    found = np.full(batch, n_max) if lengths is None else np.asarray(lengths)
    whole = np.issubdtype(found.dtype, np.integer)
    if found.shape != (batch,) or not whole or ((found < 0) | (found > n_max)).any():
        raise ValueError(
            f"lengths must be {batch} whole numbers from 0 to {n_max}, got {found.tolist()}"
        )
    return found
