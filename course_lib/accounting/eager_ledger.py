"""What PyTorch eager moves: bytes per tensor, FLOPs, trips and peak memory of any PyTorch code.

A `TorchDispatchMode` sees every operator that eager PyTorch runs, one kernel at a time, and books
it by these rules:

1.  *Views are free.* An output that aliases an input (view, expand, transpose, a reshape that
    needs no copy) costs nothing. A naive count forgets this: it then sees 6 trips of the scores
    in 2-D code, 12 in 4-D and 20 in einsum form, where the same 6 are made.
2.  *Every other operator reads each distinct input once and writes its outputs.* Bytes are those
    of distinct elements: an expanded tensor costs what it stores, a slice what it shows.
3.  *In-place costs a read plus a write*; `copy_`, `fill_`, `zero_`, the random fills and `out=`
    only write their target.
4.  *Bare allocation is free* (`empty`, `empty_like`, `new_empty`); `zeros` and `full` write.
    `zeros_like(x)` and the like do not read `x`.
5.  *An input multiplied by beta = 0* (`addmm`, `baddbmm`, `addmv`) is not read.
6.  *`clone`, `contiguous` that copies and `copy_`* read and write: a copy is traffic.
7.  *Row selections* (`index`, `index_select`, `gather`, `embedding`) read what they select, and
    `index_put_`, `index_copy_` and `scatter_` write what they are given, not the whole target.
8.  *FLOPs* are those of the matrix products (einsum and matmul become `bmm`). A fused attention
    operator is booked by a model, since nothing can look inside: q, k, v (and a mask) read once,
    o and lse written once, 4 n_q n_k d FLOPs a head, half if causal. That is the compulsory
    model of `traffic.py`, a lower bound, not a measurement.
9.  *Numbers are free*: a tensor without dimensions is a number that travels with the launch.
10. *What happens inside a Triton launch is not booked*: the interpreter copies tensors through
    torch. Nothing is booked either while `paused()` is active.

The rules describe the operators' contracts, not caches and not the insides of a kernel (a softmax
over a row that outgrows the chip's memory reads it twice). Lesson 02 uses this ledger.

Longer than 400 lines because what an operator reads and writes is told in one place.
"""

from __future__ import annotations

import operator
import sys
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from course_lib.accounting.flops import attention_flops
from course_lib.accounting.ledger import Ledger

_ALLOCATES = {
    "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"
}  # fmt: skip
_OVERWRITES = {  # in-place operators that never look at what was there
    "copy_",
    "fill_",
    "zero_",
    "uniform_",
    "normal_",
    "random_",
    "bernoulli_",
    "exponential_",
}
_SELECTS = {"index", "index_select", "gather", "embedding", "take"}
_PUTS = {"index_put_": "values", "index_copy_": "source", "scatter_": "src"}
_LEFT_FACTOR = {  # matrix products -> which argument is the left factor
    "mm": 0,
    "bmm": 0,
    "mv": 0,
    "dot": 0,
    "addmm": 1,
    "baddbmm": 1,
    "addmv": 1,
}
_SCALES_SELF = {"addmm", "baddbmm", "addmv"}  # beta * self + alpha * product
_FUSED = "_scaled_dot_product_"
_INTERPRETER = "triton.runtime.interpreter"

_state = threading.local()


@contextmanager
def paused() -> Iterator[None]:
    """Book nothing in any eager ledger of this thread while the block runs."""
    _state.depth = getattr(_state, "depth", 0) + 1
    try:
        yield
    finally:
        _state.depth -= 1


def _inside_triton_launch() -> bool:
    """Say whether Triton's interpreter is at work further up the stack."""
    if _INTERPRETER not in sys.modules:
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == _INTERPRETER:
            return True
        frame = frame.f_back
    return False


class Crossing(NamedTuple):
    """One tensor crossing between memory and chip, for one operator."""

    op: str
    tensor: str
    direction: str  # "read" or "written"
    n_bytes: int
    itemsize: int = 4  # bytes of one number


class EagerLedger(Ledger):
    """Count what the PyTorch code inside a ``with`` block moves (rules: see this module).

    Args:
        **tensors: names for the inputs, by storage, so that views of them keep the name. Tensors
            made inside are named by the operator that made them (``"mm"``; ``"mm 2"`` for those
            of its next shape: eager naive's S and O), unnamed inputs ``"input"``.

    Attributes:
        crossings: every `Crossing`, in order.
        peak_bytes: most bytes alive at once in storages made inside, so *above the inputs*.
        of_given: bytes read of each tensor that `follow` was given, in order.
        unseen: operators that read numbers which the ledger did not see being written, in order;
            followed from `follow` on, else empty.

    Raises:
        TypeError: if a named argument is not a tensor.

    Example:
        >>> with EagerLedger(q=q, k=k, v=v) as ledger:
        ...     o = torch.softmax(q @ k.T / d**0.5, dim=-1) @ v
        >>> ledger.trips(n * n * 4)  # doctest: +SKIP
        6
    """

    def __init__(self, **tensors: torch.Tensor) -> None:
        super().__init__()
        self.crossings: list[Crossing] = []
        self.peak_bytes = 0
        self._names: dict[int, str] = {}
        self._shapes: dict[str, list[torch.Size]] = {}  # op -> shapes it made, in order
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}
        # A weak reference keeps nothing but the address from being used again.
        self._inputs: list[StorageWeakRef] = []
        self._modes: list[_Mode] = []
        self.unseen: list[str] = []
        self._least: int | None = None  # so many numbers are looked at; None: none are followed
        self._written: dict[int, tuple[StorageWeakRef, int]] = {}  # what was last seen in there
        self.of_given: list[int] = []
        self._given: list[int] = []
        self.name(**tensors)

    def name(self, **tensors: torch.Tensor) -> None:
        """Name tensors by storage; tensors that share one (a packed qkv) share joined names."""
        joined: dict[int, list[str]] = {}
        for name, tensor in tensors.items():
            if not isinstance(tensor, torch.Tensor):
                raise TypeError(f"{name} must be a torch.Tensor, got {type(tensor).__name__}.")
            joined.setdefault(_key(tensor), []).append(name)
            if _key(tensor) not in self._alive:
                self._inputs.append(StorageWeakRef(tensor.untyped_storage()))
        self._names.update({key: "/".join(names) for key, names in joined.items()})

    def __enter__(self) -> EagerLedger:
        self._modes.append(_Mode(self))
        self._modes[-1].__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._modes.pop().__exit__(*error)

    def follow(self, given: Any, least: int) -> None:
        """Notice from now on what is computed beside the ledger, and hear of it in `unseen`.

        That is a tensor of ``least`` numbers or more that was neither ``given`` (nested) nor
        written by an operator that is in the books, or that was changed after it: in NumPy, in
        another thread, or while no mode was active.
        """
        self._least = least
        self._note_written(_tensors(given))
        self._given = [_key(tensor) for tensor in _tensors(given)]
        self.of_given = [0] * len(self._given)

    def look(self, reader: str, read: Any, least: int | None = None) -> None:
        """Note in `unseen` who reads numbers that the ledger did not see being written.

        ``least``: numbers of a tensor that is looked at, where that is fewer than `follow` said.
        """
        if self._least is None:
            return
        least = self._least if least is None else min(self._least, least)
        for tensor in _tensors(read):
            storage, seen = self._written.get(_key(tensor), (None, None))
            known = storage is not None and not storage.expired() and seen == _print_of(tensor)
            if tensor.numel() >= least and not known:
                self.unseen.append(reader)

    def _note_written(self, tensors: list[torch.Tensor]) -> None:
        for tensor in tensors:
            storage = StorageWeakRef(tensor.untyped_storage())
            self._written[_key(tensor)] = storage, _print_of(tensor)

    def to_plain(self) -> dict[str, Any]:
        """Return the books as plain data, for another process; `from_plain` reads them."""
        own = {"kind": "eager", "crossings": list(self.crossings), "peak": self.peak_bytes}
        own |= {"unseen": list(self.unseen), "of_given": list(self.of_given)}
        return super().to_plain() | own

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> EagerLedger:
        """Return the ledger that `to_plain` described. Raises something if these are no books."""
        ledger = cls()
        ledger._take(data)
        ledger.crossings = [
            Crossing(str(op), str(tensor), str(way), operator.index(n), operator.index(itemsize))
            for op, tensor, way, n, itemsize in data["crossings"]
        ]
        ledger.peak_bytes = operator.index(data["peak"])
        ledger.unseen = [str(op) for op in data["unseen"]]
        ledger.of_given = [operator.index(n) for n in data["of_given"]]
        return ledger

    def trips(self, n_bytes: int) -> int:
        """Count the crossings of at least ``n_bytes``: with ``n_q * n_k * b``, trips of S and P."""
        return sum(crossing.n_bytes >= n_bytes for crossing in self.crossings)

    @property
    def live_bytes(self) -> int:
        """Bytes alive now in storages that were made inside."""
        for key in [key for key, (storage, _) in self._alive.items() if storage.expired()]:
            del self._alive[key], self._names[key]
        return sum(n_bytes for _, n_bytes in self._alive.values())

    def _book(self, func: Any, args: tuple, kwargs: dict, out: Any) -> None:
        op = func._schema.name.partition("::")[2]
        bound = _bind(func, args, kwargs)
        inputs = [t for _, value in bound.values() for t in _tensors(value)]
        mutated = [t for arg, value in bound.values() if _is_written(arg) for t in _tensors(value)]
        known = {_key(t) for t in inputs}
        outputs = _tensors(out)
        fresh = [t for t in outputs if _key(t) not in known]
        self._remember(op, fresh)
        if self._least is not None:
            self._note_written(mutated + fresh)
        if op in _ALLOCATES or torch.Tag.inplace_view in func.tags:
            return
        if outputs and not fresh and not mutated:
            return  # a view
        limit = sum(map(stored_bytes, fresh)) if op in _SELECTS else None
        for tensor in _distinct(_read_inputs(op, bound)):
            self._cross(op, "read", tensor, limit if tensor is inputs[0] else None)
        put = _given_to_put(op, bound)
        for tensor in _distinct(mutated + fresh):
            self._cross(op, "written", tensor, put)
        self.flops += _flops(op, bound, out)

    def _cross(
        self, op: str, direction: str, tensor: torch.Tensor, limit: int | None = None
    ) -> None:
        n_bytes = stored_bytes(tensor)
        if limit is not None:
            n_bytes = min(n_bytes, limit)
        if not n_bytes or not tensor.dim():
            return
        name = self._names.get(_key(tensor), "input")
        self.crossings.append(Crossing(op, name, direction, n_bytes, tensor.element_size()))
        (self.note_read if direction == "read" else self.note_written)(name, n_bytes)
        if direction == "read" and _key(tensor) in self._given:
            self.of_given[self._given.index(_key(tensor))] += n_bytes

    def _remember(self, op: str, fresh: list[torch.Tensor]) -> None:
        for i, tensor in enumerate(fresh):
            storage = tensor.untyped_storage()
            self._names[_key(tensor)] = self._new_name(op, i, tensor)
            self._alive[_key(tensor)] = (StorageWeakRef(storage), storage.nbytes())
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def _new_name(self, op: str, i: int, tensor: torch.Tensor) -> str:
        if op.startswith(_FUSED) and not op.endswith("_backward") and i < 2:
            return ("o", "lse")[i]
        shapes = self._shapes.setdefault(op, [])
        if tensor.shape not in shapes:
            shapes.append(tensor.shape)
        place = shapes.index(tensor.shape)
        return f"{op} {place + 1}" if place else op


class _Mode(TorchDispatchMode):
    """Runs every operator as it is and tells the ledger."""

    def __init__(self, ledger: EagerLedger) -> None:
        super().__init__()
        self.ledger = ledger

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # True, torch's default, imports the compiler (and triton): two seconds

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(_state, "depth", 0) or _inside_triton_launch():
            return func(*args, **kwargs)
        if _is_composite(func.name()):  # inference_mode hands over matmul whole: look inside
            with self:
                return func.decompose(*args, **kwargs)
        self.ledger.look(func._schema.name.partition("::")[2], (args, kwargs))
        out = func(*args, **kwargs)
        self.ledger._book(func, args, kwargs, out)
        return out


def stored_bytes(tensor: torch.Tensor) -> int:
    """Return the bytes of the distinct elements that ``tensor`` shows (expanded ones once)."""
    if tensor.layout != torch.strided:
        return tensor.numel() * tensor.element_size()
    if not tensor.numel():
        return 0
    shown = extent = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        shown *= size if stride else 1
        extent += (size - 1) * stride
    return min(shown, extent) * tensor.element_size()  # windows may overlap


@cache
def _is_composite(name: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")


def _key(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _print_of(tensor: torch.Tensor) -> int:
    """Return a fingerprint of all the numbers of a tensor's storage."""
    all_bytes = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    return zlib.crc32(all_bytes.numpy().data)


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _bind(func: Any, args: tuple, kwargs: dict) -> dict[str, tuple[Any, Any]]:
    """Return argument name -> (schema argument, value), for the arguments that were given."""
    bound = {}
    for i, argument in enumerate(func._schema.arguments):
        if i < len(args):
            bound[argument.name] = (argument, args[i])
        elif argument.name in kwargs:
            bound[argument.name] = (argument, kwargs[argument.name])
    return bound


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _read_inputs(op: str, bound: dict[str, tuple[Any, Any]]) -> list[torch.Tensor]:
    if op.endswith("_like") or op.startswith("new_"):
        return []
    beta = bound.get("beta", (None, 1))[1] if op.rstrip("_") in _SCALES_SELF else 1
    puts = _given_to_put(op, bound) is not None
    skipped = "self" if op in _OVERWRITES or puts or beta == 0 else None
    return [
        tensor
        for name, (argument, value) in bound.items()
        if name != skipped and not argument.is_out
        for tensor in _tensors(value)
    ]


def _given_to_put(op: str, bound: dict[str, tuple[Any, Any]]) -> int | None:
    """Return the bytes that replace rows of a target; None if it may be all of it, or is added."""
    _, given = bound.get(_PUTS.get(op, ""), (None, None))
    if not isinstance(given, torch.Tensor) or not given.dim() or bound.get("accumulate", (0, 0))[1]:
        return None
    return stored_bytes(given)


def _distinct(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Drop tensors that show the same elements as an earlier one (x * x, or x @ x.T)."""
    seen: dict[tuple, torch.Tensor] = {}
    for tensor in tensors:
        steps = zip(tensor.stride(), tensor.shape, strict=True) if tensor.numel() else ()
        cells = tuple(sorted(step for step in steps if step[0] and step[1] > 1))
        seen.setdefault((_key(tensor), tensor.storage_offset(), cells), tensor)
    return list(seen.values())


def _flops(op: str, bound: dict[str, tuple[Any, Any]], out: Any) -> int:
    values = [value for _, value in bound.values()]
    if op.rstrip("_") in _LEFT_FACTOR:
        left = values[_LEFT_FACTOR[op.rstrip("_")]]
        return 2 * out.numel() * left.shape[-1]
    if op.startswith(_FUSED) and "query" in bound:
        q, k = bound["query"][1], bound["key"][1]
        causal = bool(bound.get("is_causal", (None, False))[1])
        heads = q.shape[:-2].numel()
        forward = attention_flops(q.shape[-2], k.shape[-2], q.shape[-1], heads, causal)
        return forward * 5 // 2 if op.endswith("_backward") else forward
    return 0
