"""The peak of one attention call: what the formula says, what was counted, what was measured."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.accounting.format import bytes_binary

METHODS = ("naive", "fused")
ITEMSIZE = {"float32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True)
class Peak:
    """The peak memory of one attention call, above its inputs.

    Attributes:
        method: ``"naive"`` (three lines of eager PyTorch) or ``"fused"`` (PyTorch's SDPA).
        n: sequence length.
        predicted_bytes: what the formula says: two score matrices, or the output.
        ledger_bytes: most bytes of tensors alive at once, counted; None if the run did not end.
        measured_bytes: most memory the process (CPU) or PyTorch's allocator (GPU) held above its
            warm baseline; None if the run did not end, or where the system does not tell.
        backend: which attention ran, in words.
        out_of_memory: "" or why the run did not end, in words.
    """

    method: str
    n: int
    predicted_bytes: int
    ledger_bytes: int | None = None
    measured_bytes: int | None = None
    backend: str = ""
    out_of_memory: str = ""

    @property
    def bytes(self) -> int | None:
        """The measured bytes, or those of the ledger where nothing could be measured."""
        return self.ledger_bytes if self.measured_bytes is None else self.measured_bytes


def predicted_bytes(
    method: str, n: int, heads: int, head_dim: int, itemsize: int, *, lse: bool = True
) -> int:
    """Return the peak above the inputs by formula.

    Naive holds two (n, n) matrices a head at its worst moment: the scores that softmax reads and
    the weights it writes. Fused holds its output and, with ``lse``, one fp32 number a row: always
    on a CPU, on a GPU only when gradients are wanted.
    """
    if method == "naive":
        return 2 * heads * n * n * itemsize
    return heads * n * (head_dim * itemsize + (4 if lse else 0))


COLUMNS = ("N", "", "predicted", "ledger", "measured")
HEADER = "{:>7}  {:<6}{:>11}{:>11}{:>11}".format(*COLUMNS)


def cells(record: Peak) -> tuple[str, ...]:
    """Return the record as the cells of a row under `COLUMNS`."""
    start = (str(record.n), record.method, bytes_binary(record.predicted_bytes))
    if record.out_of_memory:
        return (*start, "", f"out of memory: {record.out_of_memory}")
    counted = (record.ledger_bytes, record.measured_bytes)
    return (*start, *("-" if n is None else bytes_binary(n) for n in counted))


def row(record: Peak) -> str:
    """Return the record as a line under `HEADER`."""
    n, method, predicted, ledger, measured = cells(record)
    start = f"{n:>7}  {method:<6}{predicted:>11}"
    return f"{start}  {measured}" if record.out_of_memory else f"{start}{ledger:>11}{measured:>11}"
