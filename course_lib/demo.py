"""Live-demo cells: show memory being used, in a lecture room or at a desk (lesson 01).

``demo.peak_memory()`` runs naive and fused attention at growing N and draws both peaks as they
arrive. Every run happens in a child process under a memory limit, so that running out of memory
is a bar in the picture and not the end of the notebook. This process loads no torch for it.
"""

from __future__ import annotations

import contextlib
import html
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.accounting.format import bytes_binary, bytes_decimal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("naive", "fused")
_CPU_LENGTHS = (512, 1024, 2048, 4096)
_GPU_LENGTHS = (4096, 8192, 16384, 32768)
_CPU_LIMIT_GB = 1.0
_COLOURS = {"naive": "#D55E00", "fused": "#0072B2"}  # Okabe-Ito vermilion and blue
_INK = "#808080"  # mid-grey: legible on white and on a dark page alike
_BACKENDS = {  # the operator that ran -> what it is
    "_scaled_dot_product_flash_attention_for_cpu": "flash attention for CPU (tiled C++)",
    "_scaled_dot_product_flash_attention": "flash attention (FA2 kernel)",
    "_scaled_dot_product_efficient_attention": "memory-efficient attention (xFormers kernel)",
    "_scaled_dot_product_cudnn_attention": "cuDNN attention",
}
_MATH = "math: PyTorch chose the unfused path, so the scores are written down here too"


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
        return "\n".join([self.caption(), _HEADER, *(_row(record) for record in self.records)])

    def caption(self) -> str:
        """Return device, shape, limit and the backends that ran, in two or three lines."""
        limit = f", limit {bytes_decimal(self.limit_bytes)}" if self.limit_bytes else ""
        lines = [
            f"Peak memory above the inputs on {self.device}: {self.dtype}, {self.heads} heads, "
            f"head_dim {self.head_dim}{limit}",
            f"measured: {self.source}",
        ]
        backends = dict.fromkeys(r.backend for r in self.records if r.method == "fused")
        return "\n".join(lines + [f"fused: {name}" for name in backends if name])

    def to_figure(self, *, presenter: bool = False) -> Figure:
        """Draw a pair of bars per N on a logarithmic scale; ``presenter``: type for a room."""
        return _draw(self, presenter)

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.table())}</pre>"


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
        limit_gb: what one call may hold above its inputs, GB (powers of ten). 1 on a CPU, all that
            the GPU has.
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
        workers = {method: stack.enter_context(_Worker(method)) for method in METHODS}
        hello = workers["naive"].ask({})
        on_gpu = hello["on_gpu"]
        if limit_gb is None and not on_gpu:
            limit_gb = _CPU_LIMIT_GB
        state = {
            "device": hello["device"],
            "source": hello["source"],
            "dtype": str(dtype or hello["dtype"]).removeprefix("torch."),
            "heads": heads,
            "head_dim": head_dim or (128 if on_gpu else 64),
            "limit_bytes": None if limit_gb is None else int(limit_gb * 1e9),
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


# --- showing -------------------------------------------------------------------------------------

_HEADER = f"{'N':>7}  {'':<6}{'predicted':>11}{'ledger':>11}{'measured':>11}"


def _row(record: Peak) -> str:
    start = f"{record.n:>7}  {record.method:<6}{bytes_binary(record.predicted_bytes):>11}"
    if record.out_of_memory:
        return f"{start}  out of memory: {record.out_of_memory}"
    counted = (record.ledger_bytes, record.measured_bytes)
    return start + "".join(f"{'-' if n is None else bytes_binary(n):>11}" for n in counted)


def _display(presenter: bool) -> Callable[[PeakMemory], None]:
    """Return what shows the state so far: one picture in a notebook, lines in a terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None or not hasattr(shell, "kernel"):
        return _print_last
    from IPython.display import Image, display

    handles: list[Any] = []

    def show(found: PeakMemory) -> None:
        buffer = io.BytesIO()
        figure = found.to_figure(presenter=presenter)
        figure.savefig(buffer, format="png", dpi=120)
        image = Image(
            buffer.getvalue(),
            width=int(figure.get_figwidth() * 80),
            metadata={"alt": found.table()},
        )
        if handles:
            handles[0].update(image)
        else:
            handles.append(display(image, display_id=True))

    return show


def _print_last(found: PeakMemory) -> None:
    if found.records:
        print(_row(found.records[-1]), flush=True)
    else:
        print(found.caption(), _HEADER, sep="\n", flush=True)


def _draw(found: PeakMemory, presenter: bool) -> Figure:
    from matplotlib.figure import Figure

    size = 22 if presenter else 12
    figure = Figure(figsize=(14, 8.5) if presenter else (8.5, 5), layout="constrained")
    figure.patch.set_alpha(0)
    axes = figure.add_subplot(facecolor="none")
    axes.set_yscale("log", base=2)
    lengths = sorted({record.n for record in found.records})
    known = [r.bytes for r in found.records if r.bytes] + [found.limit_bytes or 2**20]
    floor, top = min(known) / 2, max([*known, *_failed_heights(found)])
    for record in found.records:
        _draw_bar(axes, found, record, lengths.index(record.n), floor, size)
    if found.limit_bytes:
        axes.axhline(found.limit_bytes, color=_INK, linestyle="--", linewidth=size / 9, zorder=0)
    axes.set_ylim(floor, top * 6)
    axes.set_xlim(-0.6, max(len(lengths), 2) - 0.4)
    axes.set_xticks(range(len(lengths)), [f"N = {n}" for n in lengths])
    axes.yaxis.set_major_formatter(lambda value, _: bytes_binary(value))
    axes.set_ylabel("peak memory above the inputs", color=_INK, fontsize=size)
    axes.set_title(_title(found), color=_INK, fontsize=size * 0.85, loc="left")
    axes.tick_params(colors=_INK, labelsize=size)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_INK)
    axes.legend(handles=_legend(), frameon=False, labelcolor=_INK, fontsize=size, loc="upper left",
                ncols=3)  # fmt: skip
    return figure


def _title(found: PeakMemory) -> str:
    lines = found.caption().splitlines()
    first, _, shape = lines[0].partition(": ")
    return "\n".join([first, shape, *lines[1:]])


def _failed_heights(found: PeakMemory) -> list[int]:
    return [r.predicted_bytes for r in found.records if r.out_of_memory]


def _draw_bar(
    axes: Any, found: PeakMemory, record: Peak, place: int, floor: float, size: int
) -> None:
    x = place + (-0.21 if record.method == "naive" else 0.21)
    colour = _COLOURS[record.method]
    if record.out_of_memory:  # as high as it wanted to be, hatched because it never was
        height, text = float(record.predicted_bytes), "out of\nmemory"
        look: dict[str, Any] = {
            "facecolor": "none",
            "edgecolor": colour,
            "hatch": "//",
            "linewidth": 2,
        }
    else:
        height = max(record.bytes or 0, floor)
        text, look = _short(record.bytes or 0).replace(" ", "\n"), {"color": colour}
    axes.bar(x, height - floor, width=0.4, bottom=floor, **look)
    axes.annotate(
        text, (x, height), (0, size * 0.4), textcoords="offset points", ha="center", va="bottom",
        color=_INK, fontsize=size * 0.8, linespacing=0.95,
    )  # fmt: skip
    if record.ledger_bytes:
        axes.plot(x, record.ledger_bytes, "D", color=_INK, markeredgecolor="white",
                  markersize=size * 0.55)  # fmt: skip


def _short(n_bytes: int) -> str:
    """Return three digits: a label on a bar has no room for more."""
    number, unit = bytes_binary(n_bytes).split()
    return f"{float(number):.3g} {unit}" if float(number) < 1000 else f"{number} {unit}"


def _legend() -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    bars: list[Any] = [Patch(color=_COLOURS[method], label=method) for method in METHODS]
    mark = Line2D([], [], marker="D", color=_INK, linestyle="", label="counted by the ledger")
    return [*bars, mark]


# --- the child process ---------------------------------------------------------------------------


class _Worker:
    """A child that measures one method: a JSON line in, a JSON line out."""

    def __init__(self, method: str) -> None:
        self.method = method

    def __enter__(self) -> _Worker:
        # A file, since a pipe that nobody reads would fill up; closed on exit.
        self.complaints = tempfile.TemporaryFile("w+")
        # A fixed threshold: large blocks go back to the system at once, so peaks do not blur.
        environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
        package = str(Path(__file__).resolve().parents[1])
        inherited = os.environ.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package, inherited]))
        self.process = subprocess.Popen(
            # -P: a random.py beside the notebook is not the standard library's
            [sys.executable, "-P", "-m", "course_lib.demo", self.method],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.complaints,
            text=True,
            env=environment,
        )
        return self

    def __exit__(self, *error: Any) -> None:
        self.process.kill()
        self.process.communicate()
        self.complaints.close()

    def measure(self, asked: dict[str, Any]) -> Peak:
        try:
            return Peak(method=self.method, n=asked["n"], **self.ask(asked))
        except _Killed:  # by the system: start again for the next length
            self.__exit__()
            self.__enter__()
            size = _ITEMSIZE[asked["dtype"]]
            need = predicted_bytes(self.method, asked["n"], asked["heads"], asked["head_dim"], size)
            says = "the system ended the process"
            return Peak(self.method, asked["n"], need, out_of_memory=says)

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(question), file=self.process.stdin, flush=True)
        assert self.process.stdout is not None
        if line := self.process.stdout.readline():
            answer = json.loads(line)
            if "failed" in answer:
                raise RuntimeError(f"{self.method} attention failed: {answer['failed']}")
            return answer
        self.process.communicate()
        if self.process.returncode == -getattr(signal, "SIGKILL", 9):
            raise _Killed
        self.complaints.seek(0)
        last = self.complaints.read().strip().splitlines()[-1:] or ["it ended without a word"]
        raise RuntimeError(f"the process that runs {self.method} attention ended: {last[0]}")


class _Killed(Exception):
    """The child was killed from outside: on Linux, by the kernel when memory ran out."""


_ITEMSIZE = {"float32": 4, "float16": 2, "bfloat16": 2}


def _serve(method: str) -> None:
    """Answer the questions on stdin, one line each, until it closes (the child's main)."""
    import torch

    answers, sys.stdout = sys.stdout, sys.stderr  # nobody else's print becomes an answer
    with contextlib.suppress(OSError):  # if memory runs out, this process goes, not the notebook
        Path("/proc/self/oom_score_adj").write_text("1000")
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = asdict(_measure(torch, method, **question)) if question else _hello(torch)
        except Exception as error:
            answer = {"failed": f"{type(error).__name__}: {error}".splitlines()[0]}
        for known in ("method", "n"):
            answer.pop(known, None)
        print(json.dumps(answer), file=answers, flush=True)


def _hello(torch: Any) -> dict[str, Any]:
    on_gpu = torch.cuda.is_available()
    modern = on_gpu and torch.cuda.get_device_capability()[0] >= 8
    if on_gpu:
        source = "peak of PyTorch's allocator above a warm baseline"
    elif _resident() is not None:
        source = "peak of the process's memory above a warm baseline"
    else:
        source = "not on this system (the ledger counts)"
    return {
        "on_gpu": on_gpu,
        "device": torch.cuda.get_device_name() if on_gpu else f"a CPU ({_threads(torch)})",
        "dtype": ("bfloat16" if modern else "float16") if on_gpu else "float32",
        "dtypes": [name for name in _ITEMSIZE if name != "bfloat16" or modern or not on_gpu],
        "source": source,
    }


def _threads(torch: Any) -> str:
    count = torch.get_num_threads()
    return f"{count} thread" + "s" * (count > 1)


def _measure(
    torch: Any,
    method: str,
    *,
    n: int,
    heads: int,
    head_dim: int,
    dtype: str,
    limit_bytes: int | None,
) -> Peak:
    """Run one attention call, warm, and return its peak; out of memory is an answer too."""
    from course_lib.accounting.eager_ledger import EagerLedger
    from course_lib.attention.naive_eager import naive_eager

    attend = naive_eager if method == "naive" else torch.nn.functional.scaled_dot_product_attention
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def draw(length: int, count: int) -> list[Any]:
        shape = (1, count, length, head_dim)
        return [torch.randn(shape, dtype=getattr(torch, dtype), device=device) for _ in range(3)]

    size = _ITEMSIZE[dtype]
    need = predicted_bytes(method, n, heads, head_dim, size, lse=device == "cpu")
    with torch.no_grad():
        with EagerLedger():  # libraries load, workspaces and threads appear: not counted
            attend(*draw(1024, 1))
        q, k, v = draw(n, heads)
        ledger = EagerLedger(q=q, k=k, v=v)
        try:
            with _limited(torch, limit_bytes, need), _peak(torch) as peak, ledger:
                attend(q, k, v)
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not _is_allocation(torch, error):
                raise
            return Peak(method, n, need, out_of_memory=_reason(limit_bytes))
    backend = "three lines of eager PyTorch" if method == "naive" else _backend(ledger)
    return Peak(method, n, need, ledger.peak_bytes, peak[0] if peak else None, backend)


def _is_allocation(torch: Any, error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error)


def _reason(limit_bytes: int | None) -> str:
    if limit_bytes is None:
        return "the device has no more"
    return "the limit stopped it"


def _backend(ledger: Any) -> str:
    ops = {crossing.op for crossing in ledger.crossings}
    return next((words for op, words in _BACKENDS.items() if op in ops), _MATH)


@contextlib.contextmanager
def _limited(torch: Any, limit_bytes: int | None, need: int) -> Iterator[None]:
    """Let the block hold ``limit_bytes`` more than now; MemoryError if nothing can enforce it."""
    if limit_bytes is None:
        yield
    elif torch.cuda.is_available():
        held, total = torch.cuda.memory_reserved(), torch.cuda.mem_get_info()[1]
        torch.cuda.set_per_process_memory_fraction(min(1.0, (held + limit_bytes) / total))
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
    elif sys.platform == "linux":
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        soft = pages * resource.getpagesize() + limit_bytes
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    elif need > limit_bytes:  # macOS and Windows enforce no such limit: the formula guards
        raise MemoryError
    else:
        yield


@contextlib.contextmanager
def _peak(torch: Any) -> Iterator[list[int]]:
    """Yield a list that holds the block's peak bytes above now, once the block has ended."""
    found: list[int] = []
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        yield found
        torch.cuda.synchronize()
        found.append(torch.cuda.max_memory_allocated() - before)
        return
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts from here
    before = _resident()
    yield found
    after = _resident("VmHWM")
    if before is not None and after is not None:
        found.append(max(0, after - before))


def _resident(field: str = "VmRSS") -> int | None:
    """Return bytes of this process in memory now, or at most (VmHWM); None if not told."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(field)).split()[1]) * 1024
    return None


if __name__ == "__main__":
    _serve(sys.argv[1])
