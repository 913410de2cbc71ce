"""Which kernel can do what: a checklist as data, and six situations that ask it.

A row says what a backend was documented to support; where several builds exist, what the source
says. It holds no speeds: the order is that in which the rows are tried, special ones first.

========  =====================================================================================
gpu       oldest and newest compute capability, times ten, both included (75 T4, 80 A100, 89 L4,
          90 H100, 100 B200)
dtype     of q, k, v
cache     what K and V may be kept in
d         head dimensions; 576 is the latent row, whose first 512 numbers are the values
mask      what it computes by itself, without a tensor of N x N numbers; "rule" is any function
          of a query's and a key's number (documents, trees of drafts)
page      slots of a page, if K and V lie in pages; empty: they have to lie in one piece
mixed     requests with one query beside requests with many, in one launch
backward  gradients
========  =====================================================================================

What hangs on two facts at once is left out: "SDPA efficient" takes bf16 from an A100 on, cuDNN a
d of 256 on an H100; PyTorch's causal mask is meant for as many queries as keys (lesson 10).

Sources, read in November 2026: [vLLM] its documentation of attention backends, commit 0013943 (made
from its checks); [PyTorch] aten/.../cuda/sdp_utils.cpp at 001f694 (its checks); READMEs of FlashMLA
(066b5ba), FlashAttention (014c349, of 2024), FlashInfer (0044425), flash-attn-4 on PyPI.
"""

from __future__ import annotations

from typing import Any

from course_lib.style.table import Table

_HALF = ("fp16", "bf16")
_ANY = (*_HALF, "fp32")
_TO_256 = tuple(range(8, 257, 8))
_CAUSAL = ("none", "causal")
_WINDOW = (*_CAUSAL, "window")


def backend(
    name: str,
    gpu: tuple[int, int],
    *,
    dtype: tuple[str, ...] = _HALF,
    cache: tuple[str, ...] | None = None,
    d: tuple[int, ...] = _TO_256,
    mask: tuple[str, ...] = _CAUSAL,
    page: tuple[int, ...] = (),
    mixed: bool = False,
    backward: bool = False,
) -> dict[str, Any]:
    """Return a row of the checklist, in lists; K and V are kept in ``dtype`` unless ``cache`` is
    given."""
    return {
        "name": name, "gpu": gpu, "dtype": [*dtype], "cache": [*(cache or dtype)], "d": [*d],
        "mask": [*mask], "page": [*page], "mixed": mixed, "backward": backward,
    }  # fmt: skip


BACKENDS = (
    backend("FlashMLA", (90, 90), dtype=("bf16",), d=(576,), page=(64,)),
    backend("FlashAttention-4", (100, 110), d=(64, 128), mask=_WINDOW, page=(16, 32, 64, 128),
            mixed=True, backward=True),
    backend("FlashAttention-3", (90, 90), cache=(*_HALF, "fp8"), mask=_WINDOW,
            page=(16, 32, 64, 128), mixed=True, backward=True),
    backend("FlashAttention-2", (80, 90), mask=_WINDOW, page=(256, 512), mixed=True,
            backward=True),
    backend("FlashInfer", (75, 121), cache=(*_HALF, "fp8"), d=(64, 128, 256),
            mask=(*_WINDOW, "rule"), page=(16, 32, 64), mixed=True),
    backend("FlexAttention", (80, 121), dtype=_ANY, mask=(*_WINDOW, "rule"),
            page=(16, 32, 64, 128), mixed=True, backward=True),
    backend("SDPA cuDNN", (80, 121), d=tuple(range(8, 129, 8)), backward=True),
    backend("SDPA flash", (80, 121), backward=True),
    backend("SDPA efficient", (50, 121), dtype=("fp16", "fp32"), d=tuple(range(8, 513, 8)),
            backward=True),
    backend("your kernels of 9.6", (80, 121), dtype=("fp16", "fp32"), d=(16, 32, 64, 128),
            backward=True),
    backend("SDPA math", (50, 121), dtype=_ANY, d=tuple(range(1, 513)), backward=True),
)  # fmt: skip
"""The checklist, in the order in which it is tried."""

_PLAIN = {"gpu": 90, "dtype": "bf16", "cache": "bf16", "d": 128, "mask": "causal", "page": None,
          "mixed": False, "backward": False}  # fmt: skip

SITUATIONS = {
    "a server on an H100: prefill and decode in one step, pages of 16": (
        _PLAIN | {"page": 16, "mixed": True}
    ),
    "the same server on a B200, its cache in fp8": (
        _PLAIN | {"gpu": 100, "cache": "fp8", "page": 16, "mixed": True}
    ),
    "decode of latent rows on an H100, pages of 64": _PLAIN | {"d": 576, "page": 64},
    "training with a sliding window on an A100": (
        _PLAIN | {"gpu": 80, "mask": "window", "backward": True}
    ),
    "training on a T4 in fp16, d = 64": (
        _PLAIN | {"gpu": 75, "dtype": "fp16", "cache": "fp16", "d": 64, "backward": True}
    ),
    "training on packed documents on an A100: a token sees its own document": (
        _PLAIN | {"gpu": 80, "mask": "rule", "backward": True}
    ),
}
"""Six situations: what each asks of a kernel, in the words of the checklist."""


def checklist() -> Table:
    """Return the checklist as a table for people."""
    columns = ("tried in this order", "gpu", "dtype", "cache", "d", "mask", "page", "mixed",
               "backward")  # fmt: skip
    rows = [
        (
            row["name"],
            "-".join(str(sm) for sm in dict.fromkeys(row["gpu"])),
            *(" ".join(row[key]) for key in ("dtype", "cache")),
            _sizes(row["d"]),
            " ".join(row["mask"]),
            _sizes(row["page"]) or "–",
            *("yes" if row[key] else "–" for key in ("mixed", "backward")),
        )
        for row in BACKENDS
    ]
    return Table(
        columns,
        rows,
        note="As documented, not measured. The sources stand in course_lib/accounting/backends.py.",
    )


def _sizes(sizes: list[int]) -> str:
    """Return sizes in few words: a long row of equal steps by its ends."""
    if len(sizes) < 5:
        return " ".join(map(str, sizes))
    step = sizes[1] - sizes[0]
    return f"{sizes[0]} to {sizes[-1]}" + (f" by {step}" if step > 1 else "")
