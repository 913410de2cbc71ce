"""What every ledger of the course can say: bytes read and written per tensor, and FLOPs.

`EagerLedger` (PyTorch), `KernelLedger` (Triton) and `FlatMemory` (the NumPy program of lesson 04)
fill it in; this file only keeps the books and shows them. Bytes are integers; tables and figures
print MB, powers of ten.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure


FIRST_LOADS = 256  # so many of a case's loads are kept in their order, to be drawn
TENSORS = ("q", "k", "v", "o", "s")  # these have a colour of their own


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
    added to the books. ``columns`` is (first, last + 1) along the last axis of the lowest address
    and of the highest, which is the range of a tile; (0, 1) of a 1-D tensor.
    """

    program: tuple[int, int, int]
    tensor: str
    rows: tuple[int, int]
    kind: Literal["load", "store"]
    n_bytes: int
    columns: tuple[int, int] = (0, 1)


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

        Raises something (KeyError, TypeError, ValueError ...) if they are none. (A text is no
        number: one made of it may have more digits than a record can hold.)
        """
        for name, count in data["read"].items():
            self.note_read(str(name), operator.index(count))
        for name, count in data["written"].items():
            self.note_written(str(name), operator.index(count))
        self.flops = operator.index(data["flops"])

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
        from course_lib.style.table import Table

        totals = ("total", sum(self.read.values()), sum(self.written.values()))
        rows = [
            (name, read / 1e6, written / 1e6, (read + written) / 1e6)
            for name, read, written in [*self.rows(), totals]
        ]
        columns = ("tensor", "read MB", "written MB", "both MB")
        digits = ",.3f" if self.total >= 1e6 else ",.6f"  # six: down to the byte
        flops = f"{self.flops / 1e9:,.4g} GFLOP, {self.intensity:,.1f} FLOP/byte"
        return Table(
            columns,
            rows,
            formats=dict.fromkeys(columns, digits),
            bars=dict.fromkeys(columns[1:], "other"),
            marks={name: tensor for name, *_ in rows if (tensor := name.lower()) in TENSORS},
            note=flops if self.flops else "",
            total=True,
        )._repr_html_()

    def to_figure(self) -> Figure:
        """Draw the books as bars in MB, a tensor's reads solid, what was written to it outlined."""
        from course_lib.style.books import draw_books

        return draw_books(self.rows())
