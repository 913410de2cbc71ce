"""What the accountant draws: each trip to HBM as an area, and where it lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from course_lib.accounting.traffic import Model
from course_lib.style.palette import hex_of

SCORES = {"s": "S", "s_scaled": "S/√d", "p": "P"}
"""Tensors of N_q x N_k numbers, and what a picture calls them."""


def areas(model: Model, values: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return what one query head moves, one dict a trip (see `HBMAccountant.areas`)."""
    n, found = values["N_q"], []
    for term in model.items:
        if term.tensor == "lse":
            continue
        again = "K_rows" in term.powers and values["K_rows"] > values["N_k"]
        kind = "pile" if again else "strip"
        if {"N_q", "N_k"} <= set(term.powers):
            kind = "square"
        trip = {"tensor": term.tensor, "direction": term.direction, "kind": kind}
        wide = term.bytes(values) / values["H"] / values["b"] / n
        found.append({**trip, "wide": wide, "tall": n})
    return found


def placed(areas: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the trips with the x and y where they lie: in one row, the strips last."""
    x, starts = 0.0, {}
    for number in sorted(range(len(areas)), key=lambda at: areas[at]["kind"] == "strip"):
        starts[number] = x
        x += areas[number]["wide"]
    return [{**trip, "x": starts[number], "y": 0} for number, trip in enumerate(areas)]


def draw_areas(
    axes: Any, lanes: Sequence[list[dict[str, Any]]], names: Sequence[str], notes: Sequence[str]
) -> None:
    """Draw placed trips of several models, a row each, at one scale, named above, noted below."""
    from matplotlib.patches import Rectangle

    long = max(trip["x"] + trip["wide"] for lane in lanes for trip in lane)
    step = max(1.8 * lanes[0][0]["tall"], 0.16 * long)
    for number, (lane, name) in enumerate(zip(lanes, names, strict=True)):
        for trip in lane:
            place = (trip["x"], number * step)
            paint = hex_of("s" if trip["tensor"] in SCORES else trip["tensor"])
            axes.add_patch(Rectangle(
                place, trip["wide"], trip["tall"], facecolor=paint, linewidth=0.5
            ))  # fmt: skip
        axes.text(0, number * step - 0.05 * step, name, va="bottom", fontsize=9)
    axes.text(0, (len(lanes) - 0.4) * step, "\n".join(notes), va="top", fontsize=9)
    axes.set(xlim=(0, long), ylim=(len(lanes) * step, -0.4 * step), aspect="equal")
    axes.set_axis_off()
