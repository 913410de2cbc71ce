"""What happens on one SM over a few key tiles, by clocks read inside two kernels (lesson 08)."""

from __future__ import annotations

from typing import Any

from course_lib.accounting.hardware import gpu
from course_lib.accounting.measurements import load_measurements
from course_lib.accounting.traffic import attention_flops
from course_lib.style.look import PAGE_INK, styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure
from course_lib.style.table import Table

_RUNGS = {"edge_masks": "rung 4", "specialised": "rung 8"}
_COLOURS = {"product": "flash", "exponentials": "other", "starts a copy": "k", "rescales O": "o"}


def share_of_peak(kernel: str) -> float:
    """Return which share of the tensor cores' peak a kernel of the record reached."""
    record = load_measurements("h100_timeline")
    (us,) = (row["median_us"] for row in record["rows"] if row["kernel"] == kernel)
    flops = attention_flops(record["n"], record["n"], record["head_dim"], record["heads"])
    return float(flops / (1e6 * us) / gpu("H100").tflops_half)


def cycles() -> Table:
    """Return how many clock cycles of a key tile each lane spends on what, in the median."""
    record = load_measurements("h100_timeline")
    rows = [
        (_RUNGS[row["kernel"]], one["lane"], one["what"], one["cycles"])
        for row in record["rows"]
        for one in row["medians"]
    ]
    clocks = [f"{row['with_clocks']:.0%}" for row in record["rows"]]
    return Table(
        ("kernel", "lane", "what", "cycles"),
        rows,
        formats={"cycles": ",.0f"},
        bars={"cycles": "other"},
        finding="What a lane does with one tile of keys, in clock cycles",
        note="Medians over all programs and tiles; a tile has 64 keys in rung 4, 128 in rung 8. "
        f"With clocks in it rung 4 takes {clocks[0]} of its time, rung 8 {clocks[1]}. P V is "
        "started beside S (rung 8), or after O is rescaled (rung 4).",
    )


def _lanes(row: dict[str, Any]) -> list[tuple[str, int]]:
    return list(dict.fromkeys((span["lane"], span["program"]) for span in row["spans"]))


@styled
def draw_timeline() -> Any:
    """Draw what the lanes of rung 4 and of rung 8 do on one SM, in clock cycles."""
    record = load_measurements("h100_timeline")
    longest = min(row["window"] for row in record["rows"])
    figure, axes = new_figure(figsize=(7, 4.2))
    names, place = {}, 0.0
    for row in record["rows"]:
        lanes = _lanes(row)
        title = f"{_RUNGS[row['kernel']]}: {row['median_us']:.0f} us"
        axes.text(0, place - 0.6, title, va="bottom", weight="bold")
        for span in row["spans"]:
            at = place + lanes.index((span["lane"], span["program"]))
            begin, end = max(span["begin"], 0), min(span["end"], longest)
            if end > begin and "waits" not in span["what"]:
                axes.barh(at, end - begin, 0.8, begin, color=hex_of(_COLOURS[span["what"]]),
                          edgecolor=PAGE_INK, linewidth=0.4)  # fmt: skip
        for i, (lane, _) in enumerate(lanes):
            names[place + i] = f"{lane} {'AB'[i]}" if lane == "program" else lane
        place += len(lanes) + 1.2
    axes.set_yticks(list(names), list(names.values()))
    axes.set(xlim=(0, longest), ylim=(place - 1.5, -1.5), xlabel="clock cycles of one SM")
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    first, last = (share_of_peak(row["kernel"]) for row in record["rows"])
    return figure.says(
        f"One lane multiplies while another takes exponentials: rung 4 has {first:.0%} of the "
        f"tensor cores' peak, rung 8 has {last:.0%}",
        "Blue: from the start of QKᵀ until S is there. Grey: exponentials. Yellow: O is rescaled. "
        f"Green: a copy is started. Empty: waiting. Measured: {record['device']}, "
        f"{record['heads']} heads, N = {record['n']:,}, head_dim {record['head_dim']}, bf16.",
        alt="Bars of what each lane does, cycle by cycle.",
    )
