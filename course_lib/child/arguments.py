"""Arguments of a launcher as JSON and raw bytes, so that a child process can rebuild them.

Tensors are described by storage, so that views which share memory share it again in the child.
They arrive on the CPU. With ``contents=False`` only shapes, strides and dtypes travel.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

import torch


class Packer:
    """Packs any number of values; ``blobs`` holds the bytes of their storages."""

    def __init__(self, contents: bool = True) -> None:
        self.contents = contents
        self.blobs: dict[str, bytes] = {}
        self._numbers: dict[int, int] = {}
        self._alive: list[torch.UntypedStorage] = []

    def pack(self, value: Any, name: str = "argument") -> Any:
        """Return ``value`` as JSON data; TypeError (naming it) if it cannot travel."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, torch.dtype):
            return {"dtype": str(value).removeprefix("torch.")}
        if isinstance(value, torch.device):
            return {"device": "cpu"}
        if isinstance(value, tuple | list):
            items = [self.pack(item, f"{name}[{i}]") for i, item in enumerate(value)]
            return {type(value).__name__ if type(value) is list else "tuple": items}
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {"dict": {k: self.pack(item, f"{name}[{k!r}]") for k, item in value.items()}}
        if _is_importable_dataclass(value):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            packed = {key: self.pack(item, f"{name}.{key}") for key, item in fields.items()}
            return {"dataclass": [type(value).__module__, type(value).__qualname__, packed]}
        raise TypeError(
            f"{name} must be a tensor, a number, a string, None, a dtype, a dataclass from a "
            "module, or a tuple, list or dict of these, to be sent to another process, got "
            f"{type(value).__name__}."
        )

    def _tensor(self, tensor: torch.Tensor) -> dict[str, Any]:
        storage = tensor.untyped_storage()
        number = self._numbers.setdefault(storage._cdata, len(self._numbers))
        if number == len(self._alive):
            self._alive.append(storage)
            if self.contents:
                self.blobs[f"storage{number}"] = bytes(_as_bytes(storage).cpu().numpy())
        return {
            "tensor": number,
            "bytes": storage.nbytes(),
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "offset": tensor.storage_offset(),
            "shape": list(tensor.shape),
            "stride": list(tensor.stride()),
        }


class Unpacker:
    """Rebuilds what a `Packer` packed; tensors without contents are zeros."""

    def __init__(self, blobs: dict[str, bytes]) -> None:
        self._blobs = blobs
        self._storages: dict[int, torch.UntypedStorage] = {}

    def unpack(self, data: Any) -> Any:
        """Return the value behind JSON data."""
        if not isinstance(data, dict):
            return data
        if "tensor" in data:
            return self._tensor(data)
        ((kind, content),) = data.items()
        if kind == "dtype":
            return getattr(torch, content)
        if kind == "device":
            return torch.device(content)
        if kind == "dict":
            return {key: self.unpack(item) for key, item in content.items()}
        if kind == "dataclass":
            module, name, fields = content
            made = getattr(importlib.import_module(module), name)
            return made(**{key: self.unpack(item) for key, item in fields.items()})
        return {"tuple": tuple, "list": list}[kind](self.unpack(item) for item in content)

    def _tensor(self, data: dict[str, Any]) -> torch.Tensor:
        number = data["tensor"]
        if number not in self._storages:
            whole = torch.zeros(data["bytes"], dtype=torch.uint8)
            if blob := self._blobs.get(f"storage{number}"):
                whole = torch.frombuffer(bytearray(blob), dtype=torch.uint8)
            self._storages[number] = whole.untyped_storage()
        empty = torch.empty(0, dtype=getattr(torch, data["dtype"]))
        return empty.set_(self._storages[number], data["offset"], data["shape"], data["stride"])


def _is_importable_dataclass(value: Any) -> bool:
    """Return whether another process can make the same from its module and its fields."""
    cls = type(value)
    return (
        dataclasses.is_dataclass(cls)
        and cls.__module__ != "__main__"
        and "." not in cls.__qualname__
        and all(field.init for field in dataclasses.fields(cls))
    )


def _as_bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    view = torch.empty(0, dtype=torch.uint8, device=storage.device)
    return view.set_(storage, 0, (storage.nbytes(),), (1,))
