"""Draw docs/traffic.svg for the README: formulas as lines, hardware counters as diamonds.

python sources/pictures/traffic.py
"""

from __future__ import annotations

from pathlib import Path

from course_lib.accounting.measurements import load_measurements
from course_lib.accounting.traffic import MODELS
from course_lib.figures import marks
from course_lib.style.axes import doublings, label_ends, length_axis, name_above, plain_log
from course_lib.style.look import styled
from course_lib.style.palette import INK, hex_of
from course_lib.style.picture import new_figure, svg

TARGET = Path(__file__).parents[2] / "docs" / "traffic.svg"
HEADS, D = 8, 128
LINES = (
    ("eager_six_trips", "naive attention,\nas PyTorch runs it", "naive"),
    ("flash_tile_loads", "what a FlashAttention\nkernel loads and stores", "flash"),
    ("flash_compulsory", "the least that any\nkernel must move", "other"),
)
# an image has no page around it: the reader's system says which ink
SHEET = (
    f"<style>svg {{ color: {INK['light']} }} @media (prefers-color-scheme: dark) "
    f"{{ svg {{ color: {INK['dark']} }} }}</style>"
)


@styled
def main() -> None:
    """Draw the three models over N and the DRAM bytes measured on an H100."""
    lengths = doublings(512, 131072)
    figure, axes = new_figure(figsize=(9, 4.4))
    ends = []
    for name, words, meaning in LINES:
        y = [MODELS[name].bytes(n=n, d=D, heads=HEADS, block_q=128) / 1e9 for n in lengths]
        axes.plot(lengths, y, color=hex_of(meaning))
        ends.append((words, lengths[-1], y[-1], meaning))
    record = load_measurements("h100_dram_traffic")
    rows = [r for r in record["rows"] if r["heads"] == HEADS and not r["causal"]]
    x, y = [r["n"] for r in rows], [_mean(r["dram_gb"]) for r in rows]
    marks.measured(axes, x, y, "flash")
    ends.append(("DRAM, measured\non an H100", x[-1], y[-1], "flash"))
    plain_log(axes)
    length_axis(axes, lengths, f"sequence length N ({HEADS} heads, d = {D}, bf16)")
    name_above(axes, "GB moved")
    label_ends(axes, ends)
    drawing = svg(
        figure,
        "Bytes moved over N: three formulas, and DRAM measured on an H100; every query sees every key.",
        "fac-wide",
    )
    start = drawing.index(">") + 1
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(drawing[:start] + SHEET + drawing[start:], encoding="utf-8")
    print(f"written: {TARGET}")


def _mean(value: float | list[float]) -> float:
    return sum(value) / len(value) if isinstance(value, list) else value


if __name__ == "__main__":
    main()
