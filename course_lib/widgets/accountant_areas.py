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
    n, side = values["N_q"], max(values["N_q"], values["d"])
    found = []
    for term in model.items:
        if term.tensor == "lse":
            continue
        area = term.bytes(values) / values["H"] / values["b"]
        again = "K_rows" in term.powers and values["K_rows"] > values["N_k"]
        kind = "pile" if again else "strip"
        if {"N_q", "N_k"} <= set(term.powers):
            kind = "square"
        wide = min(area / n, side) if kind == "pile" else area / n
        trip = {"tensor": term.tensor, "direction": term.direction, "kind": kind}
        found.append({**trip, "wide": wide, "tall": area / wide})
    return found


def placed(areas: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the trips with the x and y where they lie: two columns, and the strips beside them.

    The trips of one tensor of scores lie side by side, and the next tensor's below them. Strips
    that lie (N < d) are piled up instead: one column is drawn larger than four side by side.
    """
    columns, depths, column = [0.0, 0.0], [0.0, 0.0], 0
    high = [trip for trip in areas if trip["kind"] != "strip"]
    for number, trip in enumerate(high):
        columns[number % 2] = max(columns[number % 2], trip["wide"])
    x, y, found = sum(columns), 0.0, []
    lying = any(trip["kind"] == "strip" and trip["wide"] > trip["tall"] for trip in areas)
    for trip in areas:
        if trip["kind"] == "strip":
            found.append({**trip, "x": x, "y": y})
            x, y = (x, y + trip["tall"]) if lying else (x + trip["wide"], y)
        else:
            found.append({**trip, "x": column * columns[0], "y": depths[column]})
            depths[column] += trip["tall"]
            column = 1 - column
    return found


def draw_areas(
    axes: Any, lanes: Sequence[list[dict[str, Any]]], names: Sequence[str], notes: Sequence[str]
) -> None:
    """Draw placed trips of several models side by side at one scale, named above, noted below."""
    from matplotlib.patches import Rectangle

    step = 1.15 * max(trip["x"] + trip["wide"] for lane in lanes for trip in lane)
    tall = max(trip["y"] + trip["tall"] for lane in lanes for trip in lane)
    for number, (lane, name) in enumerate(zip(lanes, names, strict=True)):
        for trip in lane:
            place = (number * step + trip["x"], trip["y"])
            paint = hex_of("s" if trip["tensor"] in SCORES else trip["tensor"])
            axes.add_patch(Rectangle(
                place, trip["wide"], trip["tall"], facecolor=paint, linewidth=0.5
            ))  # fmt: skip
        name = name.replace(" (", "\n(")
        axes.text(number * step, -0.03 * tall, name, va="bottom", fontsize=9)
    axes.text(0, 1.03 * tall, "\n".join(notes), va="top", fontsize=9)
    axes.set(xlim=(0, len(lanes) * step), ylim=(1.05 * tall, -0.02 * tall), aspect="equal")
    axes.set_axis_off()
