"""Draw docs/traffic.svg for the README: formulas as lines, hardware counters as marks.

python sources/pictures/traffic.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt

from course_lib.accounting.measurements import load_measurements
from course_lib.accounting.traffic import MODELS
from course_lib.widgets.style import OKABE_ITO, apply

TARGET = Path(__file__).parents[2] / "docs" / "traffic.svg"
HEADS, D = 8, 128
LINES = (
    ("eager_six_trips", "naive attention, as PyTorch runs it", "vermilion"),
    ("flash_tile_loads", "what a FlashAttention kernel loads and stores", "blue"),
    ("flash_compulsory", "the least that any kernel must move", "green"),
)


def main() -> None:
    """Draw the three models over N and the DRAM bytes that an H100 counted."""
    apply()
    matplotlib.rcParams["svg.hashsalt"] = "course"  # the same picture gives the same file
    lengths = [2**i for i in range(9, 18)]
    fig, ax = plt.subplots(figsize=(8, 4.2))
    for name, label, colour in LINES:
        y = [MODELS[name].bytes(n=n, d=D, heads=HEADS, block_q=128) / 1e9 for n in lengths]
        ax.loglog(lengths, y, color=OKABE_ITO[colour], label=label)
    record = load_measurements("h100_dram_traffic")
    rows = [r for r in record["rows"] if r["heads"] == HEADS and not r["causal"]]
    x, y = [r["n"] for r in rows], [_mean(r["dram_gb"]) for r in rows]
    ax.loglog(x, y, "o", ms=9, color=OKABE_ITO["green"], label="DRAM, counted on an H100")
    ax.set(xlabel=f"sequence length N ({HEADS} heads, d = {D}, bf16)", ylabel="GB moved")
    ax.legend(loc="upper left")
    TARGET.parent.mkdir(exist_ok=True)
    fig.savefig(TARGET, metadata={"Date": None})
    print(f"written: {TARGET}")


def _mean(value: float | list[float]) -> float:
    return sum(value) / len(value) if isinstance(value, list) else value


if __name__ == "__main__":
    main()
