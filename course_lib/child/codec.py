"""Values as bytes, and back: how anything crosses from one process to another.

Never pickle: decoding builds only None, numbers, strings, bytes, lists, tuples, dicts, NumPy
arrays and torch tensors, and checks every size before it allocates. Whatever else a student
returns arrives as an object that only remembers the name of its type.

An encoded value: length of the JSON (4 bytes), the JSON, the raw bytes that it points into.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from course_lib.accounting.hardware import GPU

_LENGTH = struct.Struct(">I")
_DTYPES = {"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"}
_TORCH = {"float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64"}
_TORCH |= {"uint8", "bool"}
_COURSE = {"GPU": GPU}  # plain dataclasses that cases are made of
_KEYS = (str, bytes, int, float, type(None), np.generic)  # not tuples: anybody can make two alike
_MAX_INT = 1 << 63
MAX_JSON, MAX_BYTES, MAX_ELEMENTS, MAX_DEPTH = 8 << 20, 128 << 20, 1 << 24, 24
MAX_NODES, MAX_NAMES, MAX_TEXT = 1 << 20, 64, 1 << 20
MAX_SIZE = _LENGTH.size + MAX_JSON + MAX_BYTES


class BadFrame(Exception):
    """What came is nothing that `encode` makes, or what is to go is too large."""


def encode(message: Any) -> bytes:
    """Return the bytes that stand for ``message``. Raises BadFrame if they are too many."""
    encoder = Encoder()
    text = json.dumps(encoder.value(message)).encode()
    if len(text) > MAX_JSON or len(encoder.blob) > MAX_BYTES:
        raise BadFrame("the value is too large to be sent")
    return joined(text, encoder.blob)


def joined(text: bytes, blob: bytes | bytearray) -> bytes:
    """Return JSON and raw bytes as one."""
    return _LENGTH.pack(len(text)) + text + blob


class Opaque:
    """Something that could not cross: all that is known of it is the name of its class."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class Encoder:
    """Turns a value into JSON data, gathering raw bytes; a storage of torch is sent once."""

    def __init__(self) -> None:
        self.blob = bytearray()
        self._storages: dict[int, tuple[int, int]] = {}
        self._kept: list[Any] = []  # so that no address is used twice
        self._depth = 0

    def value(self, x: Any) -> Any:
        """Return the JSON data that stand for ``x``."""
        if x is None or type(x) is bool:
            return x
        if self._depth > MAX_DEPTH:
            raise BadFrame("the value is nested too deeply")
        if (type(x) is int and -_MAX_INT < x < _MAX_INT) or (
            type(x) is str and x.isascii() and len(x) <= MAX_TEXT
        ):  # most of what is sent
            return x
        if isinstance(x, str):  # NumPy's strings and bytes too, before its numbers
            return str(x)[:MAX_TEXT].encode("utf-8", "replace").decode()
        if isinstance(x, bytes | bytearray):
            # an empty one of NumPy's shows a byte through its buffer
            return ["b", *self._put(x.item() if isinstance(x, np.generic) else bytes(x))]
        if isinstance(x, np.generic | np.ndarray):
            return self._array(x)
        if isinstance(x, int):
            return int(x) if abs(x) < _MAX_INT else self.foreign(x, "a very large integer")
        if isinstance(x, float):
            return ["f", float.hex(float(x))]
        if isinstance(x, list | tuple):
            kind = "l" if isinstance(x, list) else "t"
            return [kind, [self.part(item, i) for i, item in enumerate(x)]]
        if isinstance(x, dict):
            return ["d", [[self._key(k), self.part(v, k)] for k, v in x.items()]]
        return self.other(x)

    def part(self, x: Any, place: Any) -> Any:
        """Return the JSON data of a part of a value: its item, or what its key leads to."""
        self._depth += 1
        data = self.value(x)
        self._depth -= 1
        return data

    def _key(self, key: Any) -> Any:
        plain = isinstance(key, _KEYS)
        return self.part(key, "a key") if plain else self.foreign(key, type(key).__name__)

    def _array(self, x: Any) -> Any:
        if type(x) is not np.ndarray and not isinstance(x, np.generic):
            return self.foreign(x, type(x).__name__)
        if x.dtype == np.longdouble:  # more digits than any answer needs
            x = x.astype(np.float64)
        name = x.dtype.str.lstrip("<|=")  # of the other byte order: ">f8"
        if name.removeprefix(">") not in _DTYPES:
            return self.foreign(x, f"{type(x).__name__} of {x.dtype}")
        kind = "a" if isinstance(x, np.ndarray) else "n"
        return [kind, name, list(x.shape), *self._put(np.ascontiguousarray(x).tobytes())]

    def other(self, x: Any) -> Any:
        """Return the JSON data of what is neither plain nor NumPy's."""
        import torch

        if type(x) in (torch.Tensor, torch.nn.Parameter):
            return self.tensor(x.detach())
        if isinstance(x, torch.dtype):
            return ["y", str(x).removeprefix("torch.")]
        if _COURSE.get(type(x).__name__) is type(x):
            return ["p", type(x).__name__, self.part(fields_of(x), "the fields")]
        return self.foreign(x, type(x).__name__)

    def foreign(self, x: Any, name: str) -> Any:
        """Return what stands for a value that cannot cross: only what kind of thing it is."""
        if inspect.isgenerator(x):
            return ["g"]
        if isinstance(x, TypeError):
            return ["e", str(x)[:500]]
        return ["c" if callable(x) else "x", name]

    def tensor(self, x: Any) -> Any:
        """Return the JSON data of a tensor."""
        name = str(x.dtype).removeprefix("torch.")
        if not self.crosses(x):
            return self.foreign(x, f"tensor of {name} on {x.device}")
        x = x.resolve_conj().resolve_neg()
        storage = x.untyped_storage()
        if storage._cdata not in self._storages:
            self._kept.append(storage)
            self._storages[storage._cdata] = self.put_storage(storage)
        place = self._storages[storage._cdata]
        return ["T", name, list(x.shape), list(x.stride()), x.storage_offset(), *place]

    def crosses(self, x: Any) -> bool:
        """Say whether a tensor is of a kind that crosses."""
        name = str(x.dtype).removeprefix("torch.")
        return name in _TORCH and x.layout is _strided() and x.device.type == "cpu"

    def put_storage(self, storage: Any) -> tuple[int, int]:
        """Put the bytes of a tensor's storage; return where they lie, and how many they are."""
        import torch

        view = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(),), (1,))
        return self._put(view.numpy().tobytes())

    def _put(self, data: bytes) -> tuple[int, int]:
        self.blob += b"\0" * (-len(self.blob) % 16)
        start = len(self.blob)
        self.blob += data
        self.check_size()
        return start, len(data)

    def check_size(self) -> None:
        """Raise BadFrame if there are too many bytes."""
        if len(self.blob) > MAX_BYTES:
            raise BadFrame("the value is too large to be sent")


def decode(data: bytes | bytearray) -> Any:
    """Return the message. Raises BadFrame for anything that is not exactly what `encode` makes."""
    if len(data) > MAX_SIZE:
        raise BadFrame("the message is too large")
    return decode_with(Decoder, data)


def decode_with(kind: Callable[[memoryview], Decoder], data: bytes | bytearray) -> Any:
    """Return what a decoder of one kind makes of ``data``. Raises BadFrame."""
    try:
        (n_text,) = _LENGTH.unpack_from(data)
        start = _LENGTH.size + n_text
        text, blob = data[_LENGTH.size : start], memoryview(data)[start:]
        return kind(blob).value(json.loads(text))
    except BadFrame:
        raise
    except Exception as error:  # whatever malformed data provokes is malformed data
        raise BadFrame(f"malformed: {type(error).__name__}") from None


class Decoder:
    """Builds the value again. What it may cost is bounded over the whole message.

    No byte is copied twice, and all arrays and tensors together have at most MAX_ELEMENTS elements:
    one element shown a million times over (stride 0) costs nothing to send and much to look at.
    Nor are there more than MAX_NODES values, or MAX_NAMES classes for things that cannot cross.
    """

    kinds = {  # noqa: RUF012  (nobody changes it)
        "l": "_list", "t": "_tuple", "d": "_dict", "f": "_float", "b": "_bytes", "a": "_array",
        "n": "_number", "T": "_tensor", "y": "_dtype", "p": "_dataclass", "g": "_generator",
        "e": "_error", "c": "_callable", "x": "_opaque",
    }  # fmt: skip
    elements_left, nodes_left = MAX_ELEMENTS, MAX_NODES
    keeps_empty = False  # strides and offset of a tensor without elements: nobody judges them

    def __init__(self, blob: memoryview) -> None:
        self._blob, self._bytes_left, self._depth = blob, len(blob), 0
        self._storages: dict[tuple[int, int], Any] = {}
        self._opaque_classes: dict[str, type] = {}

    def value(self, data: Any) -> Any:
        """Return the value that JSON data stand for."""
        self.nodes_left -= 1
        if self.nodes_left < 0:
            raise BadFrame("too many values")
        of = type(data)  # JSON has no subclasses
        if of is str:
            return data if data.isascii() else _as_utf8(data)
        if of is int:
            return data if -_MAX_INT < data < _MAX_INT else self.large(data)
        if data is None or of is bool:
            return data
        self._depth += 1
        if self._depth > 2 * MAX_DEPTH:
            raise BadFrame("nested too deeply")
        kind, *rest = data
        value = getattr(self, self.kinds[kind])(*rest)
        self._depth -= 1
        return value

    def large(self, number: int) -> int:
        """Return an integer of more than 63 bits, if it may be one."""
        raise BadFrame("an integer of more than 63 bits")

    def _list(self, items: list[Any]) -> list[Any]:
        return [self.value(item) for item in items]

    def _tuple(self, items: list[Any]) -> tuple[Any, ...]:
        return tuple([self.value(item) for item in items])

    def _dict(self, items: list[Any]) -> dict[Any, Any]:
        pairs = [(self.value(key), self.value(value)) for key, value in items]
        if not all(type(key) is str or isinstance(key, (*_KEYS, Opaque)) for key, _ in pairs):
            raise BadFrame("a dict with strange keys")
        return dict(pairs)

    def _float(self, text: str) -> float:
        return float.fromhex(text)

    def _bytes(self, start: int, size: int) -> bytes:
        if not 0 <= start <= start + size <= len(self._blob):
            raise BadFrame("bytes outside of the message")
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise BadFrame("the same bytes twice")
        return bytes(self._blob[start : start + size])

    def _counted(self, shape: list[int]) -> int:
        """Return the number of elements; BadFrame if the message has too many with these."""
        count = rows = 1
        for n in shape:
            if type(n) is not int or n < 0 or len(shape) > 16:
                raise BadFrame("an impossible shape")
            count, rows = count * n, rows * max(n, 1)
        # one without elements costs too, and may have rows without end
        self.elements_left -= rows + 1024 if shape else 1
        if self.elements_left < 0:
            raise BadFrame("too many elements in all")
        return count

    def _array(self, dtype: str, shape: list[int], start: int, size: int) -> np.ndarray:
        name = dtype.removeprefix(">")
        if name not in _DTYPES:
            raise BadFrame("unknown dtype")
        count = self._counted(shape)
        if count * np.dtype(name).itemsize != size:
            raise BadFrame("an array whose bytes do not fit its shape")
        flat = np.frombuffer(self._bytes(start, size), dtype if dtype != name else f"<{name}")
        return flat.reshape(shape).copy()

    def _number(self, *args: Any) -> Any:
        return self._array(*args)[()]

    def _tensor(
        self, name: str, shape: list[int], strides: list[int], offset: int, start: int, size: int
    ) -> Any:
        import torch

        dtype, count = self.torch_dtype(name), self._counted(shape)
        if dtype is None or len(strides) != len(shape):
            raise BadFrame("unknown kind of tensor")
        last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True) if n)
        width = torch.empty(0, dtype=dtype).element_size()
        if min([0, offset, *strides]) < 0 or (count and (last + 1) * width > size):
            raise BadFrame("a tensor that leaves its storage")
        if (start, size) not in self._storages:
            self._storages[start, size] = self.storage(start, size)
        if not count and not self.keeps_empty:
            return torch.empty(shape, dtype=dtype)
        storage = self._storages[start, size]
        return torch.empty(0, dtype=dtype).set_(storage, offset, shape, strides)

    def storage(self, start: int, size: int) -> Any:
        """Return a storage of torch that holds these bytes of the message."""
        import torch

        raw = bytearray(self._bytes(start, size)) or bytearray(1)
        return torch.frombuffer(raw, dtype=torch.uint8).untyped_storage()

    def torch_dtype(self, name: str) -> Any:
        """Return the dtype of torch of this name, None if its tensors do not cross."""
        import torch

        return getattr(torch, name) if name in _TORCH else None

    def _dtype(self, name: str) -> Any:
        return self.torch_dtype(name) or self._opaque("dtype")

    def _generator(self) -> Any:
        return (_ for _ in ())

    def _error(self, text: str) -> TypeError:
        return TypeError(_as_utf8(str(text)[:500]))

    def _dataclass(self, name: str, fields: Any) -> Any:
        return _COURSE[name](**self.value(fields))

    def _callable(self, name: str) -> Any:
        return lambda: name

    def _opaque(self, name: str) -> Any:
        """Return an object of which only the name of its type is known."""
        plain = "".join(c for c in str(name) if c.isalnum() or c in "_ .")[:60] or "object"
        known = self._opaque_classes
        if plain not in known and len(known) >= MAX_NAMES:
            plain = "object"
        if plain not in known:
            known[plain] = type(plain, (Opaque,), {})
        return known[plain]()


def _as_utf8(text: str) -> str:
    """Return ``text``. Raises BadFrame if UTF-8 cannot hold it: whoever is sent it reads another.

    (`Encoder` makes none: half of a surrogate pair is a "?" there.)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadFrame("a text that is none") from None
    return text


def fields_of(x: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name, as they are."""
    return {field.name: getattr(x, field.name) for field in dataclasses.fields(x)}


def _strided() -> Any:
    import torch

    return torch.strided
