"""The ladder of kernels on an H100: how fast each rung is, and what it gained (lesson 08)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from course_lib.accounting.measurements import load_measurements
from course_lib.figures import marks
from course_lib.style.look import PAGE_INK, styled
from course_lib.style.picture import new_figure
from course_lib.style.table import Table

_MASK = {False: "all keys", True: "causal"}


def _tflops(way: str, causal: bool) -> float:
    rows = load_measurements("h100_ladder")["rows"]
    key = {"way": way, "d": 128, "n": 16384, "causal": causal}
    return next(row["tflops"] for row in rows if key.items() <= row.items())


def _note() -> str:
    device = load_measurements("h100_ladder")["device"]
    return f"Measured: {device}. Batch 1, 16 heads, N = 16384, d = 128, bf16."


@styled
def draw_rungs(names: Sequence[str]) -> Any:
    """Draw each rung's TFLOP/s for all keys and causal; dotted lines: PyTorch's kernels."""
    figure, axes = new_figure(1, 2, figsize=(8, 4), sharey=True)
    for ax, causal in zip(axes, (False, True), strict=True):
        speeds = [_tflops(name, causal) for name in names]
        marks.bars(ax, names, speeds, "flash", [""] * len(speeds))
        for row, speed in enumerate(speeds):  # white on blue: 5.2 in both themes
            ax.text(15, row, f"{speed:.0f}", va="center", color="white", weight="bold")
        for way in ("FA2", "cuDNN"):
            x = _tflops(way, causal)
            ax.axvline(x, color=PAGE_INK, linestyle=":", linewidth=2)
            ax.annotate(way, (x, 1), (0, 4), xycoords=("data", "axes fraction"), ha="center",
                        textcoords="offset points", fontsize=10)  # fmt: skip
        ax.set(xlim=(0, 800), xlabel=f"TFLOP/s, {_MASK[causal]}")
    axes[0].set_ylim(len(names) - 0.5, -0.5)
    first, last = (_tflops(names[i], True) for i in (0, -1))
    return figure.says(
        f"Causal, the last rung is {last / first:.1f} times as fast as the first, and "
        f"{last / _tflops('FA2', True):.1f} times as fast as FlashAttention-2",
        f"{_note()} FlashAttention-2 was written for the A100.",
    )


def gains(builds_on: Mapping[str, str]) -> Table:
    """Return how many times as fast each rung is as the one that it builds on."""
    rows = [
        (rung, base, *(_tflops(rung, c) / _tflops(base, c) for c in (False, True)))
        for rung, base in builds_on.items()
    ]
    best = max(builds_on, key=lambda r: _tflops(r, True) / _tflops(builds_on[r], True))
    most = _tflops(best, True) / _tflops(builds_on[best], True)
    return Table(
        ("rung", "builds on", "all keys ×", "causal ×"),
        rows,
        formats={"all keys ×": ".2f", "causal ×": ".2f"},
        bars={"all keys ×": "flash", "causal ×": "flash"},
        finding=f"Rung {best} gains most for causal attention: {most:.2f} times",
        note=_note(),
    )


def speeds(ways: Sequence[str]) -> Table:
    """Return TFLOP/s of some ways, for all keys and causal."""
    columns = ("TFLOP/s", *_MASK.values())
    rows = [(way, *(_tflops(way, causal) for causal in _MASK)) for way in ways]
    bars = dict.fromkeys(columns[1:], "flash")
    return Table(columns, rows, dict.fromkeys(columns, ".0f"), bars, note=_note())


def peers() -> Table:
    """Return TFLOP/s of the forward pass beside others' at N = 8192, d = 128 and 64."""
    record = load_measurements("h100_peers")
    ways = ("FA2", "cuDNN", "FA4", "course")
    found: dict[tuple[int, str], dict[str, float]] = {}
    widths = set()
    key = {"pass": "forward", "batch": 2, "n": 8192}
    for r in (row for row in record["rows"] if key.items() <= row.items()):
        if r["heads"] == r["kv_heads"] and r["d"] in (64, 128):
            found.setdefault((r["d"], _MASK[r["causal"]]), {})[r["way"]] = r["tflops"]
            widths.add(r["heads"] * r["d"])
    rows = [(*case, *(speeds[way] for way in ways)) for case, speeds in found.items()]
    (width,) = widths
    note = (
        f"Measured: {record['device']}, TFLOP/s, bf16. Batch 2, {width} / d heads, N = 8192. FA4: "
        f"version {record['versions']['flash-attn-4']}."
    )
    return Table(("d", "mask", *ways), rows, dict.fromkeys(ways, ".0f"), note=note)
