"""What stands among the arguments of a Triton launch: tensors, wrapped ones, constants."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile
from typing import Any

from course_lib.accounting.pointer_tables import PointerTable


def tensors_in(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield (name, tensor) for the tensors in one launch argument; tuple items get an index."""
    if isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from tensors_in(f"{name}[{i}]", item)
    elif isinstance(value, PointerTable):
        yield name, value.table
        yield from tensors_in(name, value.targets)
    elif type(value).__name__ == "TensorDescriptor":
        yield name, value.base
    elif hasattr(value, "data_ptr"):
        yield name, unwrapped(value)


def unwrapped(value: Any) -> Any:
    """Return the torch tensor inside ``triton.reinterpret``'s wrapper."""
    return value.base if type(value).__name__ == "TensorWrapper" else value


def plain_value(value: Any) -> Any:
    """Return what a ``tl.constexpr`` wraps."""
    return value.value if type(value).__name__ == "constexpr" else value


def refuse_bfloat16(tensors: dict[str, Any]) -> None:
    """Raise a TypeError that names the first bfloat16 tensor of a launch."""
    for name, tensor in tensors.items():
        if str(tensor.dtype) == "torch.bfloat16":
            raise TypeError(
                f"`{name}` is bfloat16, which Triton's interpreter gets silently wrong (it "
                "multiplies the raw bits as integers): use float16 or float32 to count."
            )


def refuse_constant_tensors(tensors: dict[str, Any], constants: Collection[str]) -> None:
    """Raise a TypeError that names the first tensor of a launch that is given as a constant.

    The interpreter hands constants over as they are: a kernel would compute in PyTorch with it.
    """
    for name in tensors:
        if name.partition("[")[0] in constants:
            raise TypeError(
                f"`{name}` is given to a `tl.constexpr`, and a tensor is no constant: leave the "
                "annotation out, and load its numbers."
            )


def refuse_bfloat16_dot(dtype: str) -> None:
    """Raise a TypeError if Triton's name of the dtype of what ``tl.dot`` is given is bfloat16's."""
    if dtype == "bf16":
        raise TypeError(
            "tl.dot is given bfloat16, which Triton's interpreter gets silently wrong (it "
            "multiplies the raw bits as integers): leave the tiles in the dtype of the inputs."
        )


def bfloat16_is_computed() -> TypeError:
    """Return what to raise where a kernel adds, multiplies or compares numbers of bfloat16."""
    return TypeError(
        "this line computes in bfloat16, which Triton's interpreter gets silently wrong (it "
        "multiplies the raw bits as integers): compute in float32, x.to(tl.float32)."
    )


def to_plain(value: Any) -> Any:
    """Return what stands for an argument in a message: tensors and numbers are plain already."""
    if isinstance(value, tuple):
        return tuple(map(to_plain, value))
    if type(value).__name__ == "TensorDescriptor":
        parts = (value.base, list(value.shape), list(value.strides), list(value.block_shape))
        return {"descriptor": parts}
    if isinstance(value, PointerTable):
        shape = list(value.table.shape)
        return {"pointers": (value.targets, list(value.offsets), shape)}
    return plain_value(value)


def from_plain(value: Any) -> Any:
    """Return the argument that `to_plain` described."""
    if isinstance(value, tuple):
        return tuple(map(from_plain, value))
    if isinstance(value, dict) and "descriptor" in value:
        from triton.tools.tensor_descriptor import TensorDescriptor

        return TensorDescriptor(*value["descriptor"])
    if isinstance(value, dict) and "pointers" in value:
        targets, offsets, shape = value["pointers"]
        return PointerTable.of(tuple(targets), tuple(offsets), shape)
    return value


def in_order(given: dict[str, Any], names: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a kernel with parameters ``names`` by place, the rest by name.

    By name Triton takes some for its own: ``device`` and ``stream`` are options of a launch.
    """
    first = list(takewhile(given.__contains__, names))
    return [given[name] for name in first], {k: v for k, v in given.items() if k not in first}


def described(value: Any) -> Any:
    """Return ``value`` with what is no number, text or container as its repr."""
    if isinstance(value, dict):
        return {str(key): described(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return (tuple if isinstance(value, tuple) else list)(map(described, value))
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)
