"""Latent attention: absorbed is expanded, is float64 attention, is multi-query attention."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.attention import attention_float64
from course_lib.attention.latent import (
    as_multi_query,
    expand,
    latent_absorbed,
    latent_expanded,
    rotate,
)

SIZE = st.integers(1, 7)


def drawn(batch, heads, n, d_nope, d_rope, rank, d_v, seed=0):
    """Return q_nope, q_rope, latent, k_rope, w_uk, w_uv."""
    shapes = (
        (batch, heads, d_nope), (batch, heads, d_rope), (batch, n, rank), (batch, n, d_rope),
        (heads, d_nope, rank), (heads, d_v, rank),
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape) for shape in shapes]


@settings(max_examples=60, deadline=None)
@given(st.tuples(SIZE, SIZE, SIZE, SIZE, SIZE, SIZE, SIZE), st.integers(0, 99))
def test_absorbed_is_expanded_is_float64(shape, seed):
    q_nope, q_rope, latent, k_rope, w_uk, w_uv = inputs = drawn(*shape, seed=seed)
    wanted = np.empty((*q_nope.shape[:2], w_uv.shape[1]))
    for b in range(len(q_nope)):
        for h in range(len(w_uk)):  # one head: its own K and V
            k = np.concatenate([latent[b] @ w_uk[h].T, k_rope[b]], axis=-1)
            q = np.concatenate([q_nope[b, h], q_rope[b, h]])[None]
            wanted[b, h] = attention_float64(q, k, latent[b] @ w_uv[h].T)[0][0]
    for attend in (latent_expanded, latent_absorbed):
        np.testing.assert_allclose(attend(*inputs), wanted, atol=1e-10)


def test_absorbed_deepseek_v2_is_multi_query_attention_of_576_and_512():
    _, _, latent, k_rope, w_uk, w_uv = inputs = drawn(1, 8, 5, 128, 64, 512, 128)
    q, k, v = as_multi_query(*inputs[:-1])
    assert (q.shape, k.shape, v.shape) == ((1, 8, 1, 576), (1, 1, 5, 576), (1, 1, 5, 512))
    assert np.shares_memory(k, v), "the values are the first numbers of the key's own row"
    assert [x.shape for x in expand(latent, k_rope, w_uk, w_uv)] == [(1, 8, 5, 192), (1, 8, 5, 128)]
    wanted = latent_expanded(*inputs)
    averaged = attention_float64(q, k, v, scale=192**-0.5)[0][:, :, 0]
    np.testing.assert_allclose(np.einsum("bhr,hvr->bhv", averaged, w_uv), wanted, atol=1e-9)
    other = attention_float64(q, k, v, scale=576**-0.5)[0][:, :, 0]
    assert np.abs(np.einsum("bhr,hvr->bhv", other, w_uv) - wanted).max() > 0.1


def test_rotated_products_depend_on_the_distance_only():
    q, k = np.random.default_rng(0).standard_normal((2, 8))
    near, far = (rotate(q, at + 3) @ rotate(k, at) for at in (0, 1000))
    assert near == pytest.approx(far)
    assert rotate(q, 0) @ rotate(k, 1) != pytest.approx(near)
    np.testing.assert_array_equal(rotate(q, 0), q)


def test_a_rotation_of_the_expanded_key_cannot_be_absorbed():
    """w_uk^T R w: with every key it would be another matrix, so the rotary key stands apart."""
    q_nope, _, latent, _, w_uk, _ = drawn(1, 1, 6, 4, 2, 8, 4)
    k = rotate(latent @ w_uk[0].T, np.arange(6))[0]  # (n, d_nope)
    scores = k @ q_nope[0, 0]
    absorbed = latent[0] @ (w_uk[0].T @ q_nope[0, 0])
    assert scores[0] == pytest.approx(absorbed[0]), "position 0 is not turned"
    assert np.abs(scores - absorbed)[1:].min() > 1e-3


def test_what_does_not_fit_is_named():
    with pytest.raises(ValueError, match="even number of columns"):
        rotate(np.ones((2, 3)), [0, 1])
    q_nope, q_rope, latent, k_rope, w_uk, w_uv = drawn(2, 3, 5, 4, 2, 8, 6)
    with pytest.raises(ValueError):
        latent_absorbed(q_nope, q_rope, latent, k_rope, w_uk.mT, w_uv)
