"""One argument of a launch as plain data, and back: a launch is a message to the device."""

from __future__ import annotations

from typing import Any


def to_plain(value: Any) -> Any:
    """Return what stands for a descriptor or a constexpr; tensors and numbers are plain already."""
    if isinstance(value, tuple):
        return tuple(map(to_plain, value))
    if type(value).__name__ == "TensorDescriptor":
        parts = (value.base, list(value.shape), list(value.strides), list(value.block_shape))
        return {"descriptor": parts}
    return getattr(value, "value", value) if type(value).__name__ == "constexpr" else value


def from_plain(value: Any) -> Any:
    """Return the argument that `to_plain` described."""
    if isinstance(value, tuple):
        return tuple(map(from_plain, value))
    if isinstance(value, dict) and "descriptor" in value:
        from triton.tools.tensor_descriptor import TensorDescriptor

        return TensorDescriptor(*value["descriptor"])
    return value
