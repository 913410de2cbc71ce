"""Live-demo cells: show memory being used, in a lecture room or at a desk (lesson 01).

``demo.peak_memory()`` runs naive and fused attention at growing N and draws both peaks as they
arrive. Every run happens in a child process under a memory limit, so that running out of memory
is an area in the picture and not the end of the notebook. This process loads no torch for it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

from course_lib.accounting.format import bytes_binary
from course_lib.demo import picture
from course_lib.demo.peak import COLUMNS, HEADER, METHODS, Peak, cells, row
from course_lib.demo.worker import Worker
from course_lib.style.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CPU_LENGTHS = (512, 1024, 2048, 4096)
_GPU_LENGTHS = (4096, 8192, 16384, 32768)
_CPU_LIMIT = 768 * 2**20  # bytes: naive attention fits at N = 2048, and not at 4096


@dataclass(frozen=True, repr=False)
class PeakMemory:
    """What ``peak_memory`` found: its ``records``, as a table or as a figure."""

    records: tuple[Peak, ...]
    device: str
    source: str  # where measured_bytes come from, in words
    dtype: str
    heads: int
    head_dim: int
    limit_bytes: int | None

    def table(self) -> str:
        """Return the records as aligned plain text, MiB and GiB."""
        return "\n".join([self.caption(), HEADER, *(row(record) for record in self.records)])

    def finding(self) -> str:
        """Return what the last length shows, as a sentence; how much less, where both ran."""
        lengths = [r.n for r in self.records]
        last = {r.method: r for r in self.records if r.n == lengths[-1]}
        if len(last) < 2:
            return "Measuring …"
        naive, fused = last["naive"], last["fused"]
        at = f"At N = {naive.n}"
        if naive.out_of_memory and not fused.out_of_memory:
            over = self.limit_bytes and naive.predicted_bytes > self.limit_bytes
            limit = f"our limit is {bytes_binary(self.limit_bytes or 0)}"
            both = (naive.predicted_bytes, fused.bytes or fused.predicted_bytes)
            needs, least = (f"{n / 2**20:{'.0f' if n >= 2**20 else '.2g'}}" for n in both)
            end = limit if over else "naive runs out of memory"
            return f"{at} naive needs {needs} MiB, fused {least} MiB; {end}"
        if not (naive.bytes and fused.bytes):
            return "The peaks, as far as they could be measured"
        return f"{at} naive attention holds {naive.bytes / fused.bytes:.3g} times as much memory"

    def caption(self) -> str:
        """Return device, shape, limit and the backends that ran, in two or three lines."""
        limit = (
            f", a limit of {bytes_binary(self.limit_bytes)} that we set" if self.limit_bytes else ""
        )
        lines = [
            f"Peak memory above the inputs on {self.device}: {self.dtype}, {self.heads} heads, "
            f"head_dim {self.head_dim}{limit}",
            f"measured: {self.source}",
        ]
        backends = dict.fromkeys(r.backend for r in self.records if r.method == "fused")
        return "\n".join(lines + [f"fused: {name}" for name in backends if name])

    def to_figure(self, *, presenter: bool = False) -> Figure:
        """Draw all peaks as areas at one scale; ``presenter``: type for a room."""
        figure = picture.draw(self.records, self.limit_bytes, presenter=presenter)
        key = f"Areas: peaks above the inputs on {self.device}, {self.dtype}, {self.heads} heads, "
        key += f"head_dim {self.head_dim}. Full colour: measured; pale: by formula."
        return figure.says(self.finding(), key, self.table())

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        note = self.caption().replace("\n", "; ")
        return Table(COLUMNS, [cells(record) for record in self.records], note=note)._repr_html_()


def peak_memory(
    lengths: Sequence[int] | None = None,
    *,
    heads: int = 8,
    head_dim: int | None = None,
    dtype: Any = None,
    limit_gb: float | None = None,
    presenter: bool = False,
) -> PeakMemory:
    """Run naive and fused attention at each N, draw the peaks as they arrive, return them all.

    Args:
        lengths: values of N, smallest first. On a GPU 4096 to 32768, else 512 to 4096.
        heads: query heads; the batch is 1.
        head_dim: 128 on a GPU, else 64.
        dtype: a torch dtype or its name. bfloat16 on a GPU (float16 before Ampere), else float32.
        limit_gb: what one call may hold above its inputs, GB (powers of ten). Without it 768 MiB on
            a CPU, and all that the GPU has.
        presenter: large type for a room.

    Returns:
        The peaks, also after running out of memory: that is a record like any other.

    Raises:
        ValueError: for a length, head count or limit that is not positive, or an unknown dtype.
        RuntimeError: if attention failed for a reason other than memory.
    """
    lengths = [] if lengths is None else list(lengths)
    _require_positive(lengths=lengths, heads=heads, head_dim=head_dim, limit_gb=limit_gb)
    with contextlib.ExitStack() as stack:
        workers = {method: stack.enter_context(Worker(method)) for method in METHODS}
        hello = workers["naive"].ask({})
        on_gpu = hello["on_gpu"]
        state = {
            "device": hello["device"],
            "source": hello["source"],
            "dtype": str(dtype or hello["dtype"]).removeprefix("torch."),
            "heads": heads,
            "head_dim": head_dim or (128 if on_gpu else 64),
            "limit_bytes": int(limit_gb * 1e9) if limit_gb else None if on_gpu else _CPU_LIMIT,
        }
        if state["dtype"] not in hello["dtypes"]:
            raise ValueError(
                f"dtype must be one of {', '.join(hello['dtypes'])}, got {state['dtype']!r}."
            )
        show = _display(presenter)
        found = PeakMemory((), **state)
        show(found)
        for n in lengths or (_GPU_LENGTHS if on_gpu else _CPU_LENGTHS):
            for method in METHODS:
                asked = {"n": int(n)} | {k: state[k] for k in ("dtype", "heads", "head_dim")}
                record = workers[method].measure(asked | {"limit_bytes": state["limit_bytes"]})
                found = PeakMemory((*found.records, record), **state)
                show(found)
    return found


def _require_positive(**arguments: Any) -> None:
    for name, value in arguments.items():
        for one in value if isinstance(value, list) else [value]:
            number = isinstance(one, Real) and not isinstance(one, bool)
            if one is not None and not (number and one > 0):
                raise ValueError(f"{name} must be positive, got {one!r}.")


def _display(presenter: bool) -> Callable[[PeakMemory], None]:
    """Return what shows the state so far: one picture in a notebook, lines in a terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None or not hasattr(shell, "kernel"):
        return _print_last
    from IPython.display import HTML, display

    handles: list[Any] = []

    def show(found: PeakMemory) -> None:
        page = HTML(found.to_figure(presenter=presenter)._repr_html_())
        if handles:
            handles[0].update(page)
        else:
            handles.append(display(page, display_id=True))

    return show


def _print_last(found: PeakMemory) -> None:
    if found.records:
        print(row(found.records[-1]), flush=True)
    else:
        print(found.caption(), HEADER, sep="\n", flush=True)
