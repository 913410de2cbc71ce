"""Model, ledger and hardware counters in one chart (lesson 08)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from course_lib.accounting.measurements import load_measurements
from course_lib.accounting.traffic import flash_compulsory, flash_tile_loads
from course_lib.figures import marks
from course_lib.style.axes import doublings, label_ends, length_axis, name_above, plain_log
from course_lib.style.look import PAGE_INK, styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure

_KERNELS = {"SDPA flash": "flash", "plain kernel": "k", "flash_attention": "v"}


def _seen(causal: bool) -> list[tuple[str, str, list[int], list[float]]]:
    """Return kernel, its hue, lengths and the DRAM's GB (of a range, the most)."""
    rows = [r for r in load_measurements("h100_dram_traffic")["sweep"] if r["causal"] == causal]
    found = []
    for kernel, hue in _KERNELS.items():
        mine = [r for r in rows if r["kernel"] == kernel]
        most = [max(gb) if isinstance(gb := r["dram_gb"], list) else gb for r in mine]
        found.append((kernel, hue, [r["n"] for r in mine], most))
    return found


def _asked(causal: bool) -> tuple[list[int], list[float]]:
    rows = [r for r in load_measurements("h100_dram_traffic")["sweep"]
            if r["causal"] == causal and r["kernel"] == "SDPA flash"]  # fmt: skip
    return [r["n"] for r in rows], [r.get("l2_asked_gb") or r["l2_gb"] for r in rows]


@styled
def draw_counters(counted: Mapping[int, int]) -> Any:
    """Draw GB of one call over N, for all keys above and causal below.

    ``counted``: N -> bytes that a ledger counted, all keys.
    """
    record = load_measurements("h100_dram_traffic")
    figure, axes = new_figure(2, 1, figsize=(7, 8))
    lengths = doublings(256, 131072)
    most = {}
    for ax, causal in zip(axes, (False, True), strict=True):
        ends = []
        shape: dict[str, Any] = {"d": 128, "heads": 8, "causal": causal, "block_q": 128}
        for model, words in ((flash_compulsory, "the least"), (flash_tile_loads, "tile loads")):
            gb = [model.bytes(n=n, **shape) / 1e9 for n in lengths]
            marks.bound(ax, lengths, gb)
            ends.append((words, lengths[-1], gb[-1], PAGE_INK))
        for kernel, hue, x, y in _seen(causal):
            marks.measured(ax, x, y, hue)
            ends.append((f"DRAM: {kernel}", x[-1], y[-1], hue))
            most[kernel, causal] = y[-1]
        x, y = _asked(causal)
        ax.plot(x, y, "D", markerfacecolor="none", markeredgecolor=hex_of("flash"))
        ends.append(("asked of L2:\nSDPA flash", x[-1], y[-1], "flash"))
        if not causal:
            marks.counted(ax, list(counted), [b / 1e9 for b in counted.values()], "yellow")
            last = max(counted)
            ax.annotate("ledger", (last, counted[last] / 1e9), (-8, 8),
                        textcoords="offset points", ha="right")  # fmt: skip
        plain_log(ax)
        length_axis(ax, lengths)
        name_above(ax, f"GB moved by one call, {'causal' if causal else 'all keys'}")
        ax.set_xlim(200, 170000)
        label_ends(ax, ends)
    ratio = most["SDPA flash", True] / most["SDPA flash", False]
    return figure.says(
        f"At N = {lengths[-1]:,} a causal mask makes SDPA flash take {ratio:.0f} times as much "
        "from DRAM",
        f"Dotted: the models. Dots: the ledger. Diamonds: counters, {record['device']}. "
        "8 heads, d = 128, bf16.",
    )
