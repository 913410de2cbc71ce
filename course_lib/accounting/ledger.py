"""What every ledger of the course can say: bytes read and written per tensor, and FLOPs.

`EagerLedger` (PyTorch), `KernelLedger` (Triton) and `FlatMemory` (the NumPy program of lesson 04)
fill it in; this file only keeps the books and shows them. Bytes are integers; tables and figures
print MB, powers of ten.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from course_lib.style.palette import hex_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

READ_COLOUR, WRITTEN_COLOUR = hex_of("blue"), "#e69f00"  # Okabe-Ito blue and orange
_INK = "#808080"  # mid-grey: legible on white and on a dark page alike


class LedgerUnavailable(RuntimeError):
    """Kernels cannot be counted here; the message says why and what to do."""


class ByteCounts(dict[str, int]):
    """Tensor name -> bytes; a name that was never touched counts 0 (and is not added)."""

    def __missing__(self, name: str) -> int:
        return 0


class Visit(NamedTuple):
    """One load or store instruction of one program, on one tensor.

    ``rows`` is (first, last + 1) of the rows it touched, along the tensor's last axis but one (of
    a 1-D tensor: of the elements). An atomic makes a "load" and a "store". ``n_bytes`` is what it
    added to the books.
    """

    program: tuple[int, int, int]
    tensor: str
    rows: tuple[int, int]
    kind: Literal["load", "store"]
    n_bytes: int


class Ledger:
    """Bytes moved per tensor and FLOPs done.

    Attributes:
        read: tensor name -> bytes read.
        written: tensor name -> bytes written.
        flops: floating-point operations of the matrix products (a multiply and an add are two).
    """

    def __init__(self) -> None:
        self.read = ByteCounts()
        self.written = ByteCounts()
        self.flops = 0

    def note_read(self, name: str, n_bytes: int) -> None:
        """Add ``n_bytes`` to what was read from tensor ``name``."""
        self.read[name] += int(n_bytes)

    def note_written(self, name: str, n_bytes: int) -> None:
        """Add ``n_bytes`` to what was written to tensor ``name``."""
        self.written[name] += int(n_bytes)

    def to_plain(self) -> dict[str, Any]:
        """Return the books as plain data, for another process; `from_plain` reads them."""
        return {"read": dict(self.read), "written": dict(self.written), "flops": self.flops}

    def _take(self, data: Mapping[str, Any]) -> None:
        """Enter the books that `to_plain` gave; from whomever they come, names and numbers.

        Raises something (KeyError, TypeError, ValueError ...) if they are none.
        """
        for name, count in data["read"].items():
            self.note_read(str(name), count)
        for name, count in data["written"].items():
            self.note_written(str(name), count)
        self.flops = int(data["flops"])

    @property
    def total(self) -> int:
        """Bytes read plus bytes written, over all tensors."""
        return sum(self.read.values()) + sum(self.written.values())

    def rows(self) -> list[tuple[str, int, int]]:
        """Return ``(name, bytes read, bytes written)`` per tensor, the dearest first."""
        rows = [(name, self.read[name], self.written[name]) for name in self.read | self.written]
        return sorted(rows, key=lambda row: (-row[1] - row[2], row[0]))

    def table(self) -> str:
        """Return the books as aligned plain text in MB (powers of ten), with a line of totals."""
        rows = self.rows()
        totals = ("total", sum(self.read.values()), sum(self.written.values()))
        digits = 3 if self.total >= 1e6 else 6  # six: down to the byte
        cells: list[tuple[str, ...]] = [("tensor", "read MB", "written MB", "both MB")]
        cells += [
            (name, *(f"{n / 1e6:,.{digits}f}" for n in (read, written, read + written)))
            for name, read, written in [*rows, totals]
        ]
        widths = [max(len(row[i]) for row in cells) for i in range(4)]
        text = [
            "  ".join([row[0].ljust(widths[0])] + [row[i].rjust(widths[i]) for i in (1, 2, 3)])
            for row in cells
        ]
        rule = "-" * len(text[0])
        text = [text[0], rule, *text[1:-1], rule, text[-1]]
        if self.flops:
            text.append(f"{self.flops / 1e9:,.4g} GFLOP, {self.intensity:,.1f} FLOP/byte")
        return "\n".join(text)

    @property
    def intensity(self) -> float:
        """FLOPs per byte moved (0 where nothing moved)."""
        return self.flops / self.total if self.total else 0.0

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.table())}</pre>"

    def to_figure(self) -> Figure:
        """Draw the books as bars, read beside written, one pair per tensor, in MB."""
        import matplotlib.pyplot  # noqa: F401  (so that a notebook knows how to show a Figure)
        from matplotlib.figure import Figure

        rows = self.rows()
        figure = Figure(figsize=(7, 1.4 + 0.5 * len(rows)), layout="constrained")
        figure.patch.set_alpha(0)
        axes = figure.add_subplot(facecolor="none")
        places = range(len(rows))
        for offset, sizes, label, colour in (
            (-0.2, [row[1] for row in rows], "read", READ_COLOUR),
            (0.2, [row[2] for row in rows], "written", WRITTEN_COLOUR),
        ):
            axes.barh(
                [place + offset for place in places],
                [size / 1e6 for size in sizes],
                height=0.38,
                label=label,
                color=colour,
            )
        axes.set_yticks(list(places), [row[0] for row in rows])
        axes.invert_yaxis()
        axes.set_xlabel("MB", color=_INK)
        axes.tick_params(colors=_INK)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(_INK)
        axes.legend(frameon=False, labelcolor=_INK)
        return figure
