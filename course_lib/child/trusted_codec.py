"""The same codec between two processes of one person: a notebook and the child it starts.

Nothing is bounded, dataclasses of any module cross, and so do tensors of any dtype and device
(they arrive on the CPU). What cannot cross is a TypeError that names it.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from course_lib.child.codec import Decoder, Encoder, decode_with, fields_of, joined


def encode(message: Any, *, contents: bool = True) -> bytes:
    """Return the bytes that stand for ``message``; TypeError for what cannot cross.

    Without ``contents`` only shapes, strides and dtypes of tensors cross: they arrive as zeros.
    """
    encoder = _Encoder(contents)
    return joined(json.dumps(encoder.value(message)).encode(), encoder.blob)


def decode(data: bytes) -> Any:
    """Return the message. Raises BadFrame."""
    return decode_with(_Decoder, data)


def encode_call(args: Sequence[Any], kwargs: Mapping[str, Any], *, contents: bool = True) -> bytes:
    """Return the arguments of a call as bytes; a TypeError names the one that cannot cross."""
    named = {f"argument {i}": value for i, value in enumerate(args)}  # no keyword has a space
    return encode({**named, **kwargs}, contents=contents)


def decode_call(data: bytes) -> tuple[list[Any], dict[str, Any]]:
    """Return positional and keyword arguments, new ones each time."""
    named = decode(data)
    args = [value for name, value in named.items() if " " in name]
    return args, {name: value for name, value in named.items() if " " not in name}


class _Encoder(Encoder):
    def __init__(self, contents: bool) -> None:
        super().__init__()
        self._contents = contents
        self._path: list[Any] = []

    def part(self, x: Any, place: Any) -> Any:
        self._path.append(place)
        data = super().part(x, place)
        self._path.pop()
        return data

    def other(self, x: Any) -> Any:
        import torch

        if isinstance(x, torch.device):
            return ["D"]
        if _is_importable_dataclass(x):
            return ["P", type(x).__module__, type(x).__qualname__, self.value(fields_of(x))]
        return super().other(x)

    def foreign(self, x: Any, name: str) -> Any:
        if isinstance(x, int):
            return int(x)
        first, *rest = self._path or ["the value"]
        raise TypeError(
            f"{first}{''.join(f'[{place!r}]' for place in rest)} must be a tensor, a number, a "
            "string, None, a dtype, a dataclass from a module, or a tuple, list or dict of these, "
            f"to be sent to another process, got {name}."
        )

    def crosses(self, x: Any) -> bool:
        import torch

        return x.layout is torch.strided

    def put_storage(self, storage: Any) -> tuple[int, int]:
        if self._contents:
            return super().put_storage(storage.cpu())
        return -1 - len(self._storages), storage.nbytes()

    def check_size(self) -> None:
        """Any size will do."""


class _Decoder(Decoder):
    kinds = Decoder.kinds | {"P": "_any_dataclass", "D": "_device"}
    elements_left = nodes_left = sys.maxsize
    keeps_empty = True

    def storage(self, start: int, size: int) -> Any:
        import torch

        if start < 0:
            return torch.zeros(size, dtype=torch.uint8).untyped_storage()
        return super().storage(start, size)

    def torch_dtype(self, name: str) -> Any:
        import torch

        return getattr(torch, name)

    def large(self, number: int) -> int:
        return number

    def _any_dataclass(self, module: str, name: str, fields: Any) -> Any:
        return getattr(import_module(module), name)(**self.value(fields))

    def _device(self) -> Any:
        import torch

        return torch.device("cpu")


def _is_importable_dataclass(x: Any) -> bool:
    """Return whether another process can make the same from its module and its fields."""
    cls = type(x)
    return (
        dataclasses.is_dataclass(cls)
        and cls.__module__ != "__main__"
        and "." not in cls.__qualname__
        and all(field.init for field in dataclasses.fields(cls))
    )
