"""What happens on one SM over a few tiles, by clocks read inside three kernels (08 and 09)."""

from __future__ import annotations

from typing import Any, NamedTuple

from course_lib.accounting.hardware import gpu
from course_lib.accounting.measurements import load_measurements
from course_lib.accounting.traffic import attention_flops
from course_lib.figures.overlap import COLOURS, product_cycles
from course_lib.style.look import PAGE_INK, styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure
from course_lib.style.table import Table


class _Kernel(NamedTuple):
    """What the clocks cannot say of a kernel."""

    name: str
    of_a_tile: str  # what makes a tile
    products: int  # of one lane and tile, each (64, 64, head_dim)
    colours: str  # what they mean, in words


_STRIPED = "Striped blue: from the start of QKᵀ until S is there, multiplying or waiting"
_KERNELS = {
    "edge_masks": _Kernel("rung 4", "64 keys", 2, f"{_STRIPED}. Grey: exponentials. Purple: O is "
        "rescaled, then P V is started; when it ends no clock says, so it is not drawn. Waiting "
        "may be inside each bar."),
    "specialised": _Kernel("rung 8", "64 keys", 2, f"{_STRIPED}. Grey: exponentials. Purple: O is "
        "rescaled. P V runs beside S and the exponentials of the next tile: it is not drawn. "
        "Green: a copy is started. Empty: waiting."),
    "gradients": _Kernel("the one-walk backward", "64 queries", 5, f"{_STRIPED}, and dQ of the "
        "tile before is handed over. Grey: exponentials, then waiting for dP. Purple: dS is made "
        "and handed over. Empty: waiting, which may be for a product. No clock sees dP, dV, dK "
        "and dQ."),
}  # fmt: skip
_SIDE = 64  # rows and columns of the scores that one lane makes of a tile, in all three
_COLOURS = {
    "product": COLOURS["S"],  # striped: multiplying and waiting, no clock tells which
    "S, dQ of the tile before is handed over": COLOURS["S"],
    "exponentials": COLOURS["exp"],
    "exponentials, waits for dP": COLOURS["exp"],
    "rescales O": "v",  # not the yellow of P V, which no clock sees
    "dS, handed over": "v",
    "starts a copy": "k",
}


def _record(kernel: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the record and what it says of one kernel."""
    record = load_measurements("h100_timeline")
    (row,) = (row for row in record["rows"] if row["kernel"] == kernel)
    return record, row


def share_of_peak(kernel: str, *, clocks: bool = False) -> float:
    """Return which share of the tensor cores' peak a kernel reached; or its copy with clocks."""
    record, row = _record(kernel)
    forward = attention_flops(record["n"], record["n"], record["head_dim"], record["heads"])
    flops = forward * _KERNELS[kernel].products / 2  # the forward has two
    us = row["median_us"] * (row["with_clocks"] if clocks else 1)
    return float(flops / (1e6 * us) / gpu("H100").tflops_half)


def _lanes(row: dict[str, Any]) -> list[tuple[str, int]]:
    return list(dict.fromkeys((span["lane"], span["program"]) for span in row["spans"]))


def cycles_of_a_tile(kernel: str) -> tuple[float, float]:
    """Return the products of one tile in all lanes of an SM, and what a lane takes, in cycles.

    The products at the nominal speed. A lane is a program in rung 4, else a group of warps.
    """
    record, row = _record(kernel)
    lanes = [lane for lane, _ in _lanes(row) if lane != "copies"]
    one_product = product_cycles(_SIDE, _SIDE, record["head_dim"])
    products = len(lanes) * _KERNELS[kernel].products * one_product
    took = sum(one["cycles"] for one in row["medians"] if one["lane"] == lanes[0])
    return products, float(took)


def cycles(kernel: str) -> Table:
    """Return how many clock cycles of a tile each lane spends on what, in the median."""
    _, row = _record(kernel)
    rows = [(one["lane"], one["what"], one["cycles"]) for one in row["medians"]]
    return Table(
        ("lane", "what", "cycles"),
        rows,
        formats={"cycles": ",.0f"},
        bars={"cycles": "other"},
        finding=f"What a lane of {_KERNELS[kernel].name} does with one tile, in clock cycles",
        note=f"Medians over all programs and tiles; a tile has {_KERNELS[kernel].of_a_tile}. With "
        f"clocks in it the kernel takes {row['with_clocks']:.0%} of its time.",
    )


@styled
def draw_timeline(kernel: str) -> Any:
    """Draw what the lanes of a kernel (of `_KERNELS`) do on one SM, in cycles."""
    record, row = _record(kernel)
    longest = min(one["window"] for one in record["rows"])
    lanes = _lanes(row)
    figure, axes = new_figure(figsize=(7, 1 + 0.45 * len(lanes)))
    for span in row["spans"]:
        at = lanes.index((span["lane"], span["program"]))
        begin, end = max(span["begin"], 0), min(span["end"], longest)
        if end > begin and not span["what"].startswith("waits"):
            colour = _COLOURS[span["what"]]
            stripes = "////" if colour == COLOURS["S"] else None
            axes.barh(at, end - begin, 0.8, begin, color=hex_of(colour),
                      edgecolor=PAGE_INK, linewidth=0.4, hatch=stripes)  # fmt: skip
    names = [
        f"{lane} {'AB'[i]}" if lane == "program" else lane for i, (lane, _) in enumerate(lanes)
    ]
    axes.set_yticks(range(len(lanes)), names)
    axes.set(xlim=(0, longest), ylim=(len(lanes) - 0.5, -0.5), xlabel="clock cycles of one SM")
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    return figure.says(
        f"One SM in {_KERNELS[kernel].name}, which has "
        f"{share_of_peak(kernel):.0%} of the tensor cores' peak",
        f"{_KERNELS[kernel].colours} "
        f"Measured: {record['device']}, {record['heads']} heads, "
        f"N = {record['n']:,}, head_dim {record['head_dim']}, bf16, {row['median_us']:.0f} µs.",
        alt="Bars of what each lane does, cycle by cycle.",
    )
