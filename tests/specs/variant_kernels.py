"""A right kernel for every kind of variant, and the realistic ways to get each one wrong.

One text with five holes: where the loop begins and ends, who sees whom, what becomes of a score,
and the notes m and l before the first tile.
"""

from __future__ import annotations

import re

from course_lib.specs.variants import variant

Edits = tuple[tuple[str, str], ...]

TEXT = """
import torch
import triton
import triton.language as tl

from course_lib import check


@triton.jit
def variant_kernel(
    Q, K, V, SINKS, O, LSE,
    q_b, q_h, q_n, q_d, k_b, k_h, k_n, k_d, v_b, v_h, v_n, v_d, o_b, o_h, o_n, o_d,
    heads, group, n_q, n_k, scale,
    N_SINKS: tl.constexpr, D: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    tile, batch, head = tl.program_id(0), tl.program_id(1) // heads, tl.program_id(1) % heads
    rows = tile * BQ + tl.arange(0, BQ)
    cols = tl.arange(0, D)
    shift = n_k - n_q
    p = rows[:, None] + shift
    q_at = Q + batch * q_b + head * q_h + rows[:, None] * q_n + cols[None, :] * q_d
    k_at = K + batch * k_b + (head // group) * k_h + cols[:, None] * k_d
    v_at = V + batch * v_b + (head // group) * v_h + cols[None, :] * v_d
    q_tile = tl.load(q_at, mask=rows[:, None] < n_q, other=0.0)
    acc = tl.zeros((BQ, D), tl.float32)
    {notes}
    end = tl.minimum(n_k, (tile + 1) * BQ + shift) if CAUSAL else n_k
    first = 0
    {bounds}
    for start in range(first, end, BK):
        keys = start + tl.arange(0, BK)
        j = keys[None, :]
        k_tile = tl.load(k_at + j * k_n, mask=j < n_k, other=0.0)
        v_tile = tl.load(v_at + keys[:, None] * v_n, mask=keys[:, None] < n_k, other=0.0)
        seen = j < n_k
        if CAUSAL:
            seen = seen & (j <= p)
        {mask}
        s = tl.dot(q_tile, k_tile, input_precision="ieee") * scale
        {score}
        s = tl.where(seen, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        alpha = tl.exp(m - m_safe)
        w = tl.exp(s - m_safe[:, None])
        l_sum = l_sum * alpha + tl.sum(w, 1)
        acc = acc * alpha[:, None]
        acc += tl.dot(w.to(v_tile.dtype), v_tile, input_precision="ieee")
        m = m_new
    {after}
    l_safe = tl.where(l_sum == 0.0, 1.0, l_sum)
    o_at = O + batch * o_b + head * o_h + rows[:, None] * o_n + cols[None, :] * o_d
    tl.store(o_at, (acc / l_safe[:, None]).to(O.dtype.element_ty), mask=rows[:, None] < n_q)
    tl.store(LSE + tl.program_id(1) * n_q + rows, m + tl.log(l_safe), mask=rows < n_q)


def flash_variant{signature}:
    b, h, n_q, d = q.shape
    o = torch.empty_like(q)
    lse = torch.empty((b, h, n_q), dtype=torch.float32, device=q.device)
    sinks_given = {sinks}
    variant_kernel[(triton.cdiv(n_q, block_q), b * h)](
        q, k, v, sinks_given, o, lse,
        *q.stride(), *k.stride(), *v.stride(), *o.stride(),
        h, h // k.shape[1], n_q, k.shape[2], d**-0.5,
        N_SINKS={n_sinks}, D=d, BQ=block_q, BK=block_k, CAUSAL={causal},
    )
    return o, lse
"""

PLAIN_NOTES = """m = tl.full((BQ,), float("-inf"), tl.float32)
    l_sum = tl.zeros((BQ,), tl.float32)"""
SINK_NOTES = """t = tl.arange(0, 16)
    sink = tl.load(SINKS + head * N_SINKS + t, mask=t < N_SINKS, other=float("-inf"))
    m = tl.zeros((BQ,), tl.float32) + tl.max(sink, 0)
    l_sum = tl.zeros((BQ,), tl.float32) + tl.sum(tl.exp(sink - tl.max(sink, 0)), 0)"""


def number(seed: str) -> str:
    """Return the parameter that stands first in the variant's title."""
    return re.search(r"\d+(\.\d+)?", variant(seed).title.replace("2^(-", ""))[0]


def holes(seed: str) -> dict[str, str]:
    """Return what fills the holes of the right kernel."""
    n, made = number(seed), variant(seed)
    notes, bounds, mask, score = PLAIN_NOTES, "", "", ""
    if made.kind == "soft-cap":
        score = f"s = {n} * (2 * tl.sigmoid(2 * s / {n}) - 1)"
    elif made.kind == "alibi":
        score = f"s = s - tl.exp2(-{n} * (head + 1) / heads) * tl.abs(p - j)"
    elif made.kind == "sink":
        notes = SINK_NOTES
    elif made.kind == "window":
        bounds = f"first = tl.maximum(0, tile * BQ + shift - {n} + 1) // BK * BK"
        mask = f"seen = seen & (j <= p) & (p - j < {n})"
    elif made.kind == "prefix":
        bounds = f"end = tl.minimum(n_k, tl.maximum({n}, end))"
        mask = f"seen = seen & ((j < {n}) | (j <= p))"
    elif made.kind == "document":
        bounds = f"first = tl.maximum(0, tile * BQ + shift) // {n} * {n} // BK * BK"
        mask = f"seen = seen & (j <= p) & (p >= 0) & (p // {n} == j // {n})"
    return {
        "notes": notes,
        "bounds": bounds,
        "mask": mask,
        "score": score,
        "after": "",
        "sinks": "sinks" if made.n_sinks else "q",
        "n_sinks": str(made.n_sinks),
        "causal": "causal" if made.takes_causal else "True",
        "signature": made.signature,
    }


def source(seed: str, edits: Edits = ()) -> str:
    """Return a right solution of a variant, or a wrong one: each edit replaces text in it."""
    text = TEXT
    filled = holes(seed)
    if variant(seed).kind == "prefix":  # causal bounds, the mask is the prefix's own
        text = text.replace("seen = seen & (j <= p)\n", "pass\n")
    for name, content in filled.items():
        text = text.replace("{" + name + "}", content)
    for old, new in edits:
        assert old in text, f"{old!r} is not in the kernel"
        text = text.replace(old, new)
    return text


def wrong(seed: str) -> dict[str, Edits]:
    """Return name of the mistake -> edits, for the kind that ``seed`` gives."""
    kind, hole = variant(seed).kind, holes(seed)
    return _WRONG[kind](number(seed), hole["score"], hole["bounds"], hole["mask"])


SEEN = 's = tl.where(seen, s, float("-inf"))'
CAUSAL = "seen = seen & (j <= p)\n"
GUARD = 'tl.where(m_new == float("-inf"), 0.0, m_new)'
NO_START = (SINK_NOTES, SINK_NOTES[: SINK_NOTES.index("m =")] + PLAIN_NOTES)


def _less(n: str) -> str:
    return str(int(n) - 1)


def _more(n: str) -> str:
    return str(int(n) + 1)


def _afterwards(*lines: str) -> tuple[str, str]:
    """Return the edit that puts lines between the loop and the division."""
    return "    l_safe = tl.where", "".join(
        f"    {line}\n" for line in lines
    ) + "    l_safe = tl.where"


def _soft_cap(n: str, score: str, bounds: str, mask: str) -> dict[str, Edits]:
    return {
        "the soft-cap is missing": ((score, "pass"),),
        "the soft-cap comes after the mask": (
            (score + "\n", "pass\n"),
            (SEEN, f"{SEEN}\n        {score}"),
        ),
        "the soft-cap comes before the scale": (
            ('"ieee") * scale', '"ieee")'),
            (score, score + "\n        s = s * scale"),
        ),
        "tanh is not multiplied by the cap": ((f"s = {n} * (2", "s = (2"),),
        "the scores are not divided by the cap": ((f"2 * s / {n}", "2 * s"),),
        "the scores are clipped": ((score, f"s = tl.maximum(-{n}, tl.minimum({n}, s))"),),
        "the causal mask is one key too generous": ((CAUSAL, "seen = seen & (j <= p + 1)\n"),),
        "the causal mask is aligned at the start": ((CAUSAL, "seen = seen & (j <= p - shift)\n"),),
    }


def _alibi(n: str, score: str, bounds: str, mask: str) -> dict[str, Edits]:
    return {
        "the bias is missing": ((score, "pass"),),
        "the bias has the wrong sign": (("s = s - tl.exp2", "s = s + tl.exp2"),),
        "the distance has a sign": (("tl.abs(p - j)", "(p - j)"),),
        "the bias comes before the scale": (("tl.abs(p - j)", "tl.abs(p - j) * scale"),),
        "all heads have one slope": (("(head + 1) / heads", "1 / heads"),),
        "slopes are counted from 0": (("(head + 1) / heads", "head / heads"),),
        "the slope is a power of e": (("s - tl.exp2", "s - tl.exp"),),
        "the bias is aligned at the start": (("tl.abs(p - j)", "tl.abs(p - shift - j)"),),
    }


def _sink(n: str, score: str, bounds: str, mask: str) -> dict[str, Edits]:
    return {
        "the sinks are missing": ((SINK_NOTES, PLAIN_NOTES),),
        "the sinks are added without the maximum": (
            NO_START,
            _afterwards("l_sum += tl.sum(tl.exp(sink), 0)"),
        ),
        "the sinks are added as they are": (
            NO_START,
            _afterwards("l_sum += tl.sum(tl.where(t < N_SINKS, sink, 0.0), 0)"),
        ),
        "the sinks do not count for the maximum": (
            NO_START,
            _afterwards(
                "m = tl.where(m == float('-inf'), 0.0, m)",
                "l_sum += tl.sum(tl.exp(sink[None, :] - m[:, None]), 1)",
            ),
        ),
        "only the first sink counts": (("mask=t < N_SINKS", "mask=t < 1"),),
        "all heads use the first head's sinks": (("SINKS + head * N_SINKS + t", "SINKS + t"),),
        "O is not rescaled": (("acc = acc * alpha[:, None]\n", "pass\n"),),
    }


def _window(n: str, score: str, bounds: str, mask: str) -> dict[str, Edits]:
    return {
        "the window is missing": ((f" & (p - j < {n})", ""), (bounds, "pass")),
        "the window is one key too narrow": ((f"p - j < {n}", f"p - j < {_less(n)}"),),
        "the window is one key too wide": ((f"p - j < {n}", f"p - j <= {n}"),),
        "the window is aligned at the start": (("shift = n_k - n_q", "shift = 0"),),
        "l is not rescaled": (("l_sum * alpha", "l_sum"),),
        "rows without a key are not guarded": ((GUARD, "m_new"),),
    }


def _prefix(n: str, score: str, bounds: str, mask: str) -> dict[str, Edits]:
    return {
        "the prefix is missing": ((mask, "seen = seen & (j <= p)"), (bounds, "pass")),
        "the prefix is one key too long": (
            (f"(j < {n})", f"(j <= {n})"),
            (f"tl.maximum({n}, end)", f"tl.maximum({_more(n)}, end)"),
        ),
        "the prefix is one key too short": ((f"(j < {n})", f"(j < {_less(n)})"),),
        "the causal part is one key too strict": (("(j <= p)", "(j < p)"),),
        "the mask is aligned at the start": (("shift = n_k - n_q", "shift = 0"),),
    }


def _document(n: str, score: str, bounds: str, mask: str) -> dict[str, Edits]:
    same = f"p // {n} == j // {n}"
    return {
        "the documents are missing": ((mask, "seen = seen & (j <= p)"), (bounds, "pass")),
        "documents are one token too long": (
            (same, same.replace(n, _more(n))),
            (bounds, "pass"),
        ),
        "documents are one token too short": ((same, same.replace(n, _less(n))),),
        "a window in place of documents": ((same, f"p - j < {n}"), (bounds, "pass")),
        "the past is thrown away": (("l_sum * alpha", "l_sum * 0"),),
    }


_WRONG = {
    "soft-cap": _soft_cap,
    "alibi": _alibi,
    "sink": _sink,
    "window": _window,
    "prefix": _prefix,
    "document": _document,
}


def visiting_too_much(seed: str) -> Edits:
    """Return edits after which the numbers stay right and tiles are visited in vain."""
    kind, bounds = variant(seed).kind, holes(seed)["bounds"]
    if kind in ("window", "document"):
        return ((bounds, "pass"),)
    end = "tl.minimum(n_k, (tile + 1) * BQ + shift)"
    return ((bounds, "end = n_k"),) if kind == "prefix" else ((end, "n_k"),)
