"""What a Triton kernel really loads and stores, per tensor and per tile, in the interpreter.

Tensors are learnt from the launch and named by kernel parameter, so those that a launcher creates
are counted too. Bytes are those that the load and store instructions ask for: an address that two
lanes load counts twice, a masked lane counts nothing, an atomic reads and writes. No cache is
modelled: this is the tile-load model of lesson 04, counted. Every address is checked before it
is touched, so a kernel that leaves its tensors gets a sentence and no crash.

Triton-viz (SIGCSE 2025) counts bytes in the interpreter in a like way; this ledger is per tensor
and per tile.

Longer than 400 lines because one class keeps all the books of a launch.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from copy import copy
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib import _mode
from course_lib.accounting.launch_arguments import (
    described,
    plain_value,
    refuse_bfloat16,
    refuse_bfloat16_dot,
    refuse_constant_tensors,
    tensors_in,
    unwrapped,
)
from course_lib.accounting.ledger import Ledger, LedgerUnavailable, Visit
from course_lib.accounting.outside import Access, told_places, where_to_look
from course_lib.accounting.pointer_tables import PointerTable, with_targets

if TYPE_CHECKING:
    from course_lib.accounting.guard_band import GuardedCopy, View


@dataclass
class Launch:
    """One kernel launch: what was started, on what, and what it loaded.

    ``tensors`` maps a parameter's name to (shape, strides in elements, dtype), ``read`` to the
    bytes loaded (atomics included), ``widest`` to how many lanes, masked or not, the widest load
    has. ``idle`` counts the loads whose lanes are all masked. ``stored`` maps "(0, 0, 0)", a
    program, to how many numbers it stored, of all tensors (atomics included); ``loaded`` a
    parameter's name to how many numbers were loaded. What is narrower than a number counts as one
    (half of a float64 is no half of a number), what is wider as all that it covers.
    """

    kernel: str
    grid: tuple[int, ...]
    constexprs: dict[str, Any]
    options: dict[str, Any]  # num_warps and the like
    tensors: dict[str, tuple[tuple[int, ...], tuple[int, ...], str]]
    module: str = ""  # where the kernel was written
    read: Counter[str] = field(default_factory=Counter)
    widest: Counter[str] = field(default_factory=Counter)
    idle: int = 0
    stored: Counter[str] = field(default_factory=Counter)
    loaded: Counter[str] = field(default_factory=Counter)


class OutOfBounds(IndexError):
    """A kernel left its tensors; the message says which, where and by how many addresses.

    Attributes:
        tensor: the kernel parameter's name, None if no tensor is near.
        program: the program id.
        count: how many addresses are outside.
        kind: "load", "store", "atomic" or "swap".
        line: the kernel's source line.
        look: one sentence (no full stop) on where to look, from what was measured.
    """

    def __init__(
        self,
        message: str,
        *,
        tensor: str | None = None,
        program: tuple[int, ...] = (),
        count: int = 0,
        kind: str = "",
        line: str = "",
        look: str = "",
    ) -> None:
        super().__init__(message)
        self.tensor, self.program, self.count = tensor, tuple(program), count
        self.kind, self.line, self.look = kind, line, look


class KernelLedger(Ledger):
    """Count every load, store and ``tl.dot`` of the Triton kernels launched in a ``with`` block.

    Two launches whose parameters share a name are added up. Where tensors overlap (one tensor
    passed twice, slices of one packed buffer) an access belongs to the smallest tensor that holds
    all its addresses, of equals to the parameter that comes first.

    Attributes:
        read: parameter name -> bytes loaded (atomics included).
        written: parameter name -> bytes stored (atomics included).
        flops: of ``tl.dot``, two per multiply-add, over whole tiles (padding counts).
        dots: (M, K, N) -> how often ``tl.dot`` multiplied (M, K) by (K, N).
        visits: every `Visit`, in the order in which the interpreter ran them.
        launches: every `Launch`.
        compared: (program, shape) -> how often that program made a comparison or a ``tl.where``
            with a result of that shape, or a tile of rows and columns alone (``keys[None, :] -
            rows[:, None]``), or to a tile added a row of 0 (multiplied by 1). A mask is seen here.
        undefined: parameter name -> loads that have a mask and no ``other``. What they leave out
            is NaN while a ledger counts (of integers, a large number): on a GPU it is anything.
        borrowed: name -> calls of a function that Triton has written in Triton (``tl.softmax``).
        rounded: ``tl.dot`` of float32 tiles that a GPU would round to TF32.

    Raises:
        LedgerUnavailable: where kernels are compiled, where Triton is missing or too new.
        RuntimeError: inside another ledger's block.
        TypeError: at a launch with a bfloat16 tensor (the interpreter's results are wrong).
        OutOfBounds: at the launch of a kernel that leaves its tensors.

    Example:
        >>> with KernelLedger() as ledger:
        ...     o, lse = flash_attention_with_lse(q, k, v)
        >>> ledger.read["k"]  # doctest: +SKIP
        131072
    """

    def __init__(self) -> None:
        super().__init__()
        self.visits: list[Visit] = []
        self.launches: list[Launch] = []
        self.compared: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()
        self.undefined: Counter[str] = Counter()
        self.dots: Counter[tuple[int, int, int]] = Counter()
        self.borrowed: Counter[str] = Counter()
        self.rounded = 0
        self._stack = ExitStack()
        self._hooks: Any = None  # the module interpreter_hooks, while counting
        self._views: list[View] = []  # of the launch that runs, the smallest first
        self._copies: dict[Any, GuardedCopy] = {}
        self._owner: dict[str, GuardedCopy] = {}
        self._tables: set[str] = set()  # names of the tensors that hold pointers

    def __enter__(self) -> KernelLedger:
        global _active
        hooks = self._hooks = _hooks()
        if _active is not None:
            raise RuntimeError(
                "another KernelLedger is counting already: close it first, a launch is counted "
                "by one ledger."
            )
        with _eager_paused():
            hooks.verify()
        self._stack.enter_context(hooks.observed(self))
        _active = self
        return self

    def __exit__(self, *error: object) -> None:
        global _active
        _active = None
        self._stack.close()

    def rows_of(self, tensor: str, kind: str = "load") -> list[tuple[int, int]]:
        """Return the row ranges in which ``tensor`` was visited, in order."""
        return [visit.rows for visit in self.visits if (visit.tensor, visit.kind) == (tensor, kind)]

    def to_plain(self) -> dict[str, Any]:
        """Return the books as plain data, for another process; `from_plain` reads them."""
        return super().to_plain() | {
            "kind": "kernel",
            "visits": _table(self.visits),
            "launches": [described(vars(launch)) for launch in self.launches],
            "compared": _table((*key, n) for key, n in self.compared.items()),
            "undefined": dict(self.undefined),
            "borrowed": dict(self.borrowed),
            "dots": list(self.dots.items()),
            "rounded": self.rounded,
        }

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> KernelLedger:
        """Return the ledger that `to_plain` described; works without Triton.

        Raises something (KeyError, TypeError, ValueError ...) if these are no books.
        """
        ledger = cls()
        ledger._take(data)
        ledger.visits = [Visit(*visit) for visit in _rows(data["visits"])]
        ledger.launches = [Launch(**launch) for launch in data["launches"]]
        for program, shape, times in _rows(data["compared"]):
            ledger.compared[program, shape] += times
        ledger.undefined.update(data["undefined"])
        ledger.borrowed.update(data["borrowed"])
        for (m, k, n), times in data["dots"]:
            ledger.dots[int(m), int(k), int(n)] += int(times)
        ledger.rounded = int(data["rounded"])
        return ledger

    # What the hooks tell (interpreter_hooks.Observer) ------------------------------------------

    def launch(self, executor: Any, args: tuple, kwargs: dict, run: Callable) -> Any:
        """Run one launch on padded copies of its tensors, then copy the results back."""
        with _eager_paused():
            args = tuple(map(with_targets, args))
            kwargs = {name: with_targets(value) for name, value in kwargs.items()}
            named = dict(zip(executor.arg_names, args, strict=False)) | kwargs
            tensors = dict(part for key, value in named.items() for part in tensors_in(key, value))
            self._launching(tensors)
            self._tables = {n for n, value in named.items() if isinstance(value, PointerTable)}
            self._note_launch(executor, named, tensors)
            refuse_bfloat16(tensors)
            refuse_constant_tensors(tensors, getattr(executor, "constexprs", ()))
            try:
                self._enter_launch(tensors)
                args = tuple(self._guarded(value) for value in args)
                kwargs = {name: self._guarded(value) for name, value in kwargs.items()}
                result = run(executor, *args, **kwargs)
            except Exception as error:
                outside = self._hooks.original_cause(error, OutOfBounds)
                if outside is None or outside is error:
                    raise
                raise outside from None
            finally:
                for guarded in self._copies.values():
                    guarded.write_back()
                self._views, self._copies, self._owner, self._tables = [], {}, {}, set()
            self._launched(executor.fn, named, tensors)
            return result

    def access(self, kind: str, ptrs: np.ndarray, mask: np.ndarray | None, width: int) -> None:
        """Book one load, store or atomic; raise `OutOfBounds` before it can touch anything."""
        addresses = _unmasked(ptrs, mask)
        self._meet(kind, addresses)
        if addresses.size == 0:
            self.launches[-1].idle += kind == "load"
            return
        low, high = int(addresses.min()), int(addresses.max())
        for view in self._views:
            if view.holds_all(addresses, low, high, width):
                if kind == "load" and view.name in self._tables:  # as launching is no traffic
                    return
                self._book(kind, view, addresses, width, low, high)
                if kind == "load":
                    widest = self.launches[-1].widest
                    widest[view.name] = max(widest[view.name], ptrs.size)
                return
        self._access_mixed(kind, addresses, width, ptrs, mask)

    def undefined_lanes(self, ptrs: np.ndarray, mask: np.ndarray) -> None:
        """Note of which tensor a load leaves lanes undefined."""
        addresses = _unmasked(ptrs, mask)
        for view in self._views:
            if addresses.size and view.holds(addresses[:1], 1).all():
                self.undefined[view.name] += 1
                return

    def dot(self, a: tuple[int, ...], b: tuple[int, ...], dtype: str, precision: str) -> None:
        """Book a ``tl.dot`` of (..., M, K) and (..., K, N). Raises TypeError for bfloat16."""
        refuse_bfloat16_dot(dtype)
        self.flops += 2 * prod(a) * b[-1]
        self.dots[a[-2], a[-1], b[-1]] += 1
        self.rounded += dtype == "fp32" and precision.upper() not in _EXACT

    def compare(self, shape: tuple[int, ...]) -> None:
        """Book a comparison, a ``tl.where`` or a tile that is made of rows and columns alone."""
        self.compared[self._hooks.program(), tuple(shape)] += 1

    def borrow(self, name: str) -> None:
        """Book a call of a function that Triton has written in Triton."""
        self.borrowed[name] += 1

    # ------------------------------------------------------------------------------------------

    def _launching(self, tensors: dict[str, Any]) -> None:
        """Look at the tensors of a launch before it is booked and run."""

    def _launched(self, function: Callable, named: dict, tensors: dict[str, Any]) -> None:
        """Look at a launch, its arguments by name and the tensors in them, when it has ended."""

    def _meet(self, kind: str, addresses: np.ndarray) -> None:
        """Look at the addresses of an access before it is booked."""

    def _note_launch(self, executor: Any, named: dict, tensors: dict) -> None:
        constexprs = set(getattr(executor, "constexprs", ()))
        launch = Launch(
            kernel=executor.fn.__name__,
            grid=(),
            constexprs={n: plain_value(v) for n, v in named.items() if n in constexprs},
            options={n: plain_value(v) for n, v in named.items() if n not in executor.arg_names},
            tensors={
                name: (tuple(t.shape), tuple(t.stride()), str(t.dtype).removeprefix("torch."))
                for name, t in tensors.items()
            },
            module=executor.fn.__module__ or "",
        )
        self.launches.append(launch)
        self._hooks.record_grid(executor, lambda grid: setattr(launch, "grid", grid))

    def _enter_launch(self, tensors: dict[str, Any]) -> None:
        from course_lib.accounting.guard_band import View, copy_with_guard_bands, span

        self._copies = copy_with_guard_bands(tensors.values())
        for name, tensor in tensors.items():
            guarded = self._owner[name] = self._copies[span(tensor)]
            self._views.append(View.of(name, guarded.rebuild(tensor)))
        self._views.sort(key=lambda view: view.hi - view.lo)

    def _guarded(self, value: Any) -> Any:
        """Return a launch argument with every tensor in it replaced by its guarded twin."""
        if isinstance(value, tuple):
            items = [self._guarded(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if type(value).__name__ == "TensorDescriptor":
            twin = copy(value)
            twin.base = self._guarded(value.base)
            return twin
        if isinstance(value, PointerTable):
            table = self._guarded(value.table)
            value.point(table, self._guarded(value.targets))
            return table
        if not hasattr(value, "data_ptr"):
            return value
        from course_lib.accounting.guard_band import span

        tensor = unwrapped(value)
        twin = self._copies[span(tensor)].rebuild(tensor)
        return twin if tensor is value else type(value)(twin, value.dtype)

    def _book(
        self, kind: str, view: View, addresses: np.ndarray, width: int, low: int, high: int
    ) -> None:
        program, n_bytes = self._hooks.program(), addresses.size * width
        rows, columns = view.place(addresses, low, high)
        numbers = max(addresses.size, n_bytes // view.itemsize)
        if kind != "store":
            self.note_read(view.name, n_bytes)
            self.launches[-1].read[view.name] += n_bytes
            self.launches[-1].loaded[view.name] += numbers
            self.visits.append(Visit(program, view.name, rows, "load", n_bytes, columns))
        if kind != "load":
            self.note_written(view.name, n_bytes)
            self.launches[-1].stored[str(program)] += numbers
            self.visits.append(Visit(program, view.name, rows, "store", n_bytes, columns))
            self._owner[view.name].dirty = True

    def _access_mixed(
        self,
        kind: str,
        addresses: np.ndarray,
        width: int,
        ptrs: np.ndarray,
        mask: np.ndarray | None,
    ) -> None:
        """Book an access whose addresses lie in several tensors, or outside all of them.

        One load from two tensors can be meant (pointers chosen by tl.where), but not from two that
        share a buffer: there it is a row that ran over into the neighbour.
        """
        left, parts = addresses, []
        for view in self._views:
            inside = view.holds(left, width)
            if inside.any():
                parts.append((view, left[inside]))
                left = left[~inside]
        parts.sort(key=lambda part: -part[1].size)
        for view, part in parts[1:]:
            if self._owner[view.name] is self._owner[parts[0][0].name]:
                left = np.concatenate([left, part])
        if left.size:
            near = parts[0][0] if parts else self._nearest(left)
            raise self._out_of_bounds(kind, left, near, Access(ptrs, mask))
        for view, part in parts:
            self._book(kind, view, part, width, int(part.min()), int(part.max()))

    def _out_of_bounds(
        self, kind: str, outside: np.ndarray, view: View | None, access: Access
    ) -> OutOfBounds:
        program, lines = self._hooks.program(), self._hooks.student_lines()
        name, where, look = None, "in no tensor of this launch", ""
        if view is not None:
            name, where = view.name, f"outside the tensor ({view.where(outside)})"
            where += told_places(view, outside)
            others = [one for one in self._views if one is not view]
            look = where_to_look(view, outside, access, program, others)
        message = (
            f"{kind} {'from' if kind == 'load' else 'to'} "
            f"{f'`{name}`' if name else 'memory'} by program {program}: {outside.size} "
            f"{'address lies' if outside.size == 1 else 'addresses lie'} {where}; "
            f"{access.told()}."
        )
        if lines:
            message += f" The line: {', called by: '.join(lines)}"
        return OutOfBounds(
            message,
            tensor=name,
            program=program,
            count=int(outside.size),
            kind=kind,
            line="".join(lines[:1]),
            look=look,
        )

    def _nearest(self, outside: np.ndarray) -> View | None:
        """Return the tensor in whose buffer (bands included) most addresses lie."""
        near: Counter[str] = Counter()
        for address in outside[:: max(1, outside.size // 64)]:
            views = [v for v in self._views if self._owner[v.name].surrounds(int(address))]
            if views:
                near[min(views, key=lambda v: v.distance(int(address))).name] += 1
        names = near.most_common(1)
        return next((v for v in self._views if names and v.name == names[0][0]), None)


_EXACT = {"IEEE", "TF32X3"}  # of float32 tiles; three TF32 products are as exact as float32
_active: KernelLedger | None = None


def _hooks() -> Any:
    """Import the hooks in interpreter mode; elsewhere say what to do instead."""
    mode = _mode.mode()
    if mode == "interpreter":
        from course_lib.accounting import interpreter_hooks

        return interpreter_hooks
    if mode == "gpu":
        raise LedgerUnavailable(
            "KernelLedger works in Triton's interpreter, and this process compiles for the GPU: "
            "use `count(function, *arguments)`, which runs it in an interpreter of its own."
        )
    raise LedgerUnavailable(
        "KernelLedger needs Triton, which is not installed here: its lessons run on Linux, WSL "
        "or Colab."
    )


def _eager_paused() -> AbstractContextManager[None]:
    """Pause any eager ledger: copying tensors to guard them is not the student's traffic."""
    eager = sys.modules.get("course_lib.accounting.eager_ledger")
    return eager.paused() if eager else nullcontext()


def _table(rows: Iterable[tuple[Any, ...]]) -> dict[str, Any]:
    """Return rows as what few things they name and an array of places: books are mostly rows."""
    named: dict[Any, int] = {}
    places = [[named.setdefault(x, len(named)) for x in row] for row in rows]
    return {"named": list(named), "places": np.array(places, np.int64)}


def _rows(table: Mapping[str, Any]) -> Iterator[list[Any]]:
    """Yield the rows of a `_table`."""
    named = table["named"]
    for places in table["places"].tolist():
        yield [named[i] for i in places]


def _unmasked(ptrs: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    """Return the addresses that an access really touches, flat: where the mask is not zero."""
    if mask is None or mask.all():
        return ptrs.ravel()
    return ptrs[mask if mask.shape == ptrs.shape else np.broadcast_to(mask, ptrs.shape)]
