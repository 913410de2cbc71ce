"""Messages between a parent and a child it does not trust: a fixed header, JSON, raw bytes.

Never pickle: decoding builds only None, numbers, strings, bytes, lists, tuples, dicts, NumPy
arrays and torch tensors, and checks every size before it allocates. Whatever else a student
returns arrives as an object that only remembers the name of its type.

Frame: magic (8 bytes), nonce (16), length of the JSON (4), length of the bytes (8), both.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import os
import select
import struct
import time
from typing import Any

import numpy as np

_MAGIC = b"course01"
_HEADER = struct.Struct(">8s16sIQ")
_DTYPES = {"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"}
_TORCH = {"float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64"}
_TORCH |= {"uint8", "bool"}
_COURSE = {"GPU": "course_lib.accounting.hardware"}  # plain dataclasses that cases are made of
MAX_JSON, MAX_BYTES, MAX_ELEMENTS, MAX_DEPTH = 8 << 20, 128 << 20, 1 << 24, 24
MAX_TEXT = 1 << 20


class BadFrame(Exception):
    """What came is no frame of ours: wrong magic, nonce, size, or contents."""


class Closed(Exception):
    """The other side has gone."""


class TooLate(Exception):
    """The deadline passed before a whole frame had come or gone."""


class Channel:
    """One end of a stream socket. ``nonce`` is 16 random bytes that both ends know."""

    def __init__(self, descriptor: int, nonce: bytes) -> None:
        self._descriptor, self._nonce = descriptor, nonce

    def send(self, message: Any, *, deadline: float | None = None) -> None:
        """Send one message. ``deadline`` is a time of ``time.monotonic()``.

        Raises Closed, BadFrame if it is too large to be sent, and TooLate if the other side has
        not read it by then (what was written of it stays written: the channel is of no more use).
        """
        text, blob = encode(message)
        header = _HEADER.pack(_MAGIC, self._nonce, len(text), len(blob))
        rest = memoryview(header + text + blob)
        try:
            while rest:
                rest = rest[self._write(rest, deadline) :]
        except (BrokenPipeError, ConnectionResetError):
            raise Closed from None

    def _write(self, data: memoryview, deadline: float | None) -> int:
        """Write some of ``data`` and return how much; a writer that must be in time never waits."""
        if deadline is None:
            return os.write(self._descriptor, data)
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([], [self._descriptor], [], left)[1]:
            raise TooLate
        os.set_blocking(self._descriptor, False)
        try:
            return os.write(self._descriptor, data[: 1 << 20])
        except BlockingIOError:
            return 0
        finally:
            os.set_blocking(self._descriptor, True)

    def receive(self, deadline: float | None = None) -> Any:
        """Return the next message. ``deadline`` is a time of ``time.monotonic()``.

        Raises Closed, TooLate, BadFrame.
        """
        magic, nonce, n_text, n_blob = _HEADER.unpack(self._exactly(_HEADER.size, deadline))
        if magic != _MAGIC or nonce != self._nonce:
            raise BadFrame("the header is wrong")
        if n_text > MAX_JSON or n_blob > MAX_BYTES:
            raise BadFrame(f"the message is too large ({n_text + n_blob} bytes)")
        text = self._exactly(n_text, deadline)
        return decode(bytes(text), self._exactly(n_blob, deadline))

    def _exactly(self, size: int, deadline: float | None) -> bytearray:
        data = bytearray()
        while len(data) < size:
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0 or not select.select([self._descriptor], [], [], left)[0]:
                    raise TooLate
            try:
                piece = os.read(self._descriptor, min(size - len(data), 1 << 20))
            except ConnectionResetError:
                raise Closed from None
            if not piece:
                raise Closed
            data += piece
        return data


def encode(message: Any) -> tuple[bytes, bytes]:
    """Return the JSON text and the raw bytes that stand for ``message``."""
    encoder = _Encoder()
    text = json.dumps(encoder.value(message, 0)).encode()
    if len(text) > MAX_JSON or len(encoder.blob) > MAX_BYTES:
        raise BadFrame("the value is too large to be sent")
    return text, bytes(encoder.blob)


class _Encoder:
    """Turns a value into JSON data, gathering raw bytes; a storage of torch is sent once."""

    def __init__(self) -> None:
        self.blob = bytearray()
        self._storages: dict[int, tuple[int, int]] = {}
        self._kept: list[Any] = []  # so that no address is used twice

    def value(self, x: Any, depth: int) -> Any:
        if x is None or type(x) is bool:
            return x
        if depth > MAX_DEPTH:
            raise BadFrame("the value is nested too deeply")
        if isinstance(x, str):  # NumPy's strings and bytes too, before its numbers
            return str(x)[:MAX_TEXT].encode("utf-8", "replace").decode()
        if isinstance(x, bytes | bytearray):
            # an empty one of NumPy's shows a byte through its buffer
            return ["b", *self._put(x.item() if isinstance(x, np.generic) else bytes(x))]
        if isinstance(x, np.generic | np.ndarray):
            return self._array(x)
        if isinstance(x, int):
            return int(x) if abs(x) < 1 << 63 else ["x", "a very large integer"]
        if isinstance(x, float):
            return ["f", float.hex(float(x))]
        if isinstance(x, list | tuple):
            kind = "l" if isinstance(x, list) else "t"
            return [kind, [self.value(item, depth + 1) for item in x]]
        if isinstance(x, dict):
            return [
                "d",
                [[self.value(k, depth + 1), self.value(v, depth + 1)] for k, v in x.items()],
            ]
        return self._other(x)

    def _array(self, x: Any) -> Any:
        if type(x) is not np.ndarray and not isinstance(x, np.generic):
            return ["x", type(x).__name__]
        dtype = x.dtype.newbyteorder("<") if x.dtype.kind in "fiub" else x.dtype
        if dtype.str[1:] not in _DTYPES:
            return ["x", f"{type(x).__name__} of {x.dtype}"]
        kind = "a" if isinstance(x, np.ndarray) else "n"
        place = self._put(np.ascontiguousarray(x, dtype).tobytes())
        return [kind, dtype.str[1:], list(x.shape), *place]

    def _other(self, x: Any) -> Any:
        import torch

        if type(x) in (torch.Tensor, torch.nn.Parameter):
            return self._tensor(x.detach())
        if isinstance(x, torch.dtype):
            return ["y", str(x).removeprefix("torch.")]
        if inspect.isgenerator(x):
            return ["g"]
        if isinstance(x, TypeError):
            return ["e", str(x)[:500]]
        if type(x).__name__ in _COURSE and type(x) is _course_type(type(x).__name__):
            fields = {f.name: getattr(x, f.name) for f in dataclasses.fields(x)}
            return ["p", type(x).__name__, self.value(fields, 1)]
        return ["c" if callable(x) else "x", type(x).__name__]

    def _tensor(self, x: Any) -> Any:
        name = str(x.dtype).removeprefix("torch.")
        if name not in _TORCH or x.layout is not _strided() or x.device.type != "cpu":
            return ["x", f"tensor of {name} on {x.device}"]
        x = x.resolve_conj().resolve_neg()
        storage = x.untyped_storage()
        if storage._cdata not in self._storages:
            self._kept.append(storage)
            self._storages[storage._cdata] = self._put(_bytes_of(storage))
        place = self._storages[storage._cdata]
        return ["T", name, list(x.shape), list(x.stride()), x.storage_offset(), *place]

    def _put(self, data: bytes) -> tuple[int, int]:
        self.blob += b"\0" * (-len(self.blob) % 16)
        start = len(self.blob)
        self.blob += data
        if len(self.blob) > MAX_BYTES:
            raise BadFrame("the value is too large to be sent")
        return start, len(data)


def decode(text: bytes, blob: bytes | bytearray) -> Any:
    """Return the message. Raises BadFrame for anything that is not exactly what `encode` makes."""
    try:
        return _Decoder(blob).value(json.loads(text), 0)
    except BadFrame:
        raise
    except Exception as error:  # whatever malformed data provokes is malformed data
        raise BadFrame(f"malformed: {type(error).__name__}") from None


class _Decoder:
    """Builds the value again. What it may cost is bounded over the whole message.

    No byte is copied twice, and all arrays and tensors together have at most MAX_ELEMENTS elements:
    one element shown a million times over (stride 0) costs nothing to send and much to look at.
    """

    def __init__(self, blob: bytes | bytearray) -> None:
        self._blob = blob
        self._bytes_left, self._elements_left = len(blob), MAX_ELEMENTS
        self._storages: dict[tuple[int, int], Any] = {}

    def value(self, data: Any, depth: int) -> Any:
        if data is None or isinstance(data, bool | int | str):
            return data
        if depth > 2 * MAX_DEPTH:
            raise BadFrame("nested too deeply")
        kind, *rest = data
        if kind in ("l", "t"):
            items = [self.value(item, depth + 1) for item in rest[0]]
            return items if kind == "l" else tuple(items)
        if kind == "d":
            return {self.value(k, depth + 1): self.value(v, depth + 1) for k, v in rest[0]}
        return getattr(self, f"_{_KINDS[kind]}")(*rest)

    def _float(self, text: str) -> float:
        return float.fromhex(text)

    def _bytes(self, start: int, size: int) -> bytes:
        if not 0 <= start <= start + size <= len(self._blob):
            raise BadFrame("bytes outside of the message")
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise BadFrame("the same bytes twice")
        return bytes(memoryview(self._blob)[start : start + size])

    def _counted(self, shape: list[int]) -> int:
        """Return the number of elements; BadFrame if the message has too many with these."""
        count = _count(shape)
        self._elements_left -= count + 1024 if shape else 1  # one without elements costs too
        if self._elements_left < 0:
            raise BadFrame("too many elements in all")
        return count

    def _array(self, dtype: str, shape: list[int], start: int, size: int) -> np.ndarray:
        if dtype not in _DTYPES:
            raise BadFrame("unknown dtype")
        count = self._counted(shape)
        if count * np.dtype(dtype).itemsize != size:
            raise BadFrame("an array whose bytes do not fit its shape")
        flat = np.frombuffer(self._bytes(start, size), dtype=f"<{dtype}")
        return flat.reshape(shape).copy()

    def _number(self, *args: Any) -> Any:
        return self._array(*args)[()]

    def _tensor(
        self, name: str, shape: list[int], strides: list[int], offset: int, start: int, size: int
    ) -> Any:
        import torch

        if name not in _TORCH or len(strides) != len(shape):
            raise BadFrame("unknown kind of tensor")
        count, dtype = self._counted(shape), getattr(torch, name)
        last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True) if n)
        width = torch.empty(0, dtype=dtype).element_size()
        if min([0, offset, *strides]) < 0 or (count and (last + 1) * width > size):
            raise BadFrame("a tensor that leaves its storage")
        if (start, size) not in self._storages:
            raw = bytearray(self._bytes(start, size)) or bytearray(1)
            whole = torch.frombuffer(raw, dtype=torch.uint8)
            self._storages[start, size] = whole.untyped_storage()
        if not count:
            return torch.empty(shape, dtype=dtype)
        storage = self._storages[start, size]
        return torch.empty(0, dtype=dtype).set_(storage, offset, shape, strides)

    def _dtype(self, name: str) -> Any:
        import torch

        return getattr(torch, name) if name in _TORCH else opaque("dtype")

    def _generator(self) -> Any:
        return (_ for _ in ())

    def _error(self, text: str) -> TypeError:
        return TypeError(str(text)[:500])

    def _dataclass(self, name: str, fields: Any) -> Any:
        return _course_type(name)(**self.value(fields, 1)) if name in _COURSE else opaque(name)

    def _callable(self, name: str) -> Any:
        return lambda: name

    def _opaque(self, name: str) -> Any:
        return opaque(name)


_KINDS = {"f": "float", "b": "bytes", "a": "array", "n": "number", "T": "tensor", "y": "dtype"}
_KINDS |= {"p": "dataclass", "g": "generator", "e": "error", "c": "callable", "x": "opaque"}


def opaque(name: str) -> Any:
    """Return an object of which only the name of its type is known."""
    plain = "".join(c for c in str(name) if c.isalnum() or c in "_ .")[:60]
    return type(plain or "object", (), {"__repr__": lambda self: f"<{plain}>"})()


def _course_type(name: str) -> type:
    return getattr(importlib.import_module(_COURSE[name]), name)


def _count(shape: list[int]) -> int:
    """Return the number of elements; BadFrame if the shape is absurd."""
    count = 1
    for n in shape:
        if type(n) is not int or n < 0 or len(shape) > 16:
            raise BadFrame("an impossible shape")
        count *= n
    if count > MAX_ELEMENTS:
        raise BadFrame("too many elements")
    return count


def _bytes_of(storage: Any) -> bytes:
    import torch

    view = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(),), (1,))
    return view.numpy().tobytes()


def _strided() -> Any:
    import torch

    return torch.strided
