"""What the operations of a compiled kernel do to tiles: each a function of NumPy arrays.

As a GPU does them where it differs from NumPy: a fraction out of an integer's range is its nearest
end, a quotient is cut off. A half precision that NumPy lacks is a float32 that was rounded.
Longer than 400 lines because it is one table of all operations.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from course_lib.child.ttir import NotUnderstood, Op, Type

Array = Any  # a NumPy array, or one of its numbers
DTYPES: dict[str, Any] = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "index": np.int64,
}  # fmt: skip
# elements that NumPy does not have: their bits, and what PyTorch calls them
ODD = {
    "bf16": (np.int16, "bfloat16"),
    "f8E5M2": (np.int8, "float8_e5m2"),
    "f8E4M3FN": (np.int8, "float8_e4m3fn"),
}
_UNSIGNED = {np.dtype(f"i{n}"): np.dtype(f"u{n}") for n in (1, 2, 4, 8)}


def dtype_of(kind: Type) -> np.dtype:
    """Return the dtype that stands for a type here. Raises NotUnderstood."""
    if kind.to:
        return np.dtype(np.int64)
    if kind.element in ODD:
        return np.dtype(np.float32)
    if kind.element not in DTYPES:
        raise NotUnderstood(f"numbers of type {kind.element}")
    return np.dtype(DTYPES[kind.element])


def bits_of(element: str) -> np.dtype:
    """Return the dtype of an element in memory."""
    if element.startswith("!tt.ptr"):
        return np.dtype(np.int64)
    return np.dtype(ODD[element][0] if element in ODD else dtype_of(Type(None, element)))


def decoded(bits: np.ndarray, element: str) -> np.ndarray:
    """Return the numbers that stand in memory."""
    if element not in ODD:
        return bits
    import torch

    x = torch.from_numpy(np.ascontiguousarray(bits)).view(getattr(torch, ODD[element][1]))
    return x.float().numpy()


def encoded(numbers: Array, element: str) -> np.ndarray:
    """Return what stands in memory for numbers."""
    if element not in ODD:
        return np.asarray(numbers, dtype=bits_of(element))
    import torch

    bits, name = ODD[element]
    x = torch.from_numpy(np.array(numbers, dtype=np.float32)).to(getattr(torch, name))
    return x.view(getattr(torch, np.dtype(bits).name)).numpy()


def rounded(x: Array, element: str) -> Array:
    """Return numbers as an element of this type holds them."""
    return decoded(encoded(x, element), element) if element in ODD else x


def unsigned(x: Array) -> Array:
    """Return the same bits, read without a sign."""
    return x.view(_UNSIGNED[x.dtype]) if x.dtype in _UNSIGNED else x


def _signed(x: Array) -> Array:
    """Return a number whose sign counts: a bit that is set is -1."""
    return -x.astype(np.int8) if x.dtype == np.bool_ else x


def _cut_off(a: Array, b: Array) -> Array:
    return (a - np.fmod(a, b)) // b


def unsigned_too(f: Callable) -> Callable:
    """Return an operation that reads its operands without a sign."""

    def operate(a: Array, b: Array) -> Array:
        x = f(unsigned(a), unsigned(b))
        return x.view(a.dtype) if x.dtype != np.bool_ else x

    return operate


def _signed_compare(f: Callable) -> Callable:
    return lambda a, b: f(_signed(a), _signed(b))


def _high_half(a: Array, b: Array) -> Array:
    if a.dtype.itemsize == 8:
        whole = unsigned(a).astype(object) * unsigned(b).astype(object)
        return np.asarray(whole // 2**64, dtype=object).astype(np.uint64).view(np.int64)
    high = unsigned(a).astype(np.uint64) * unsigned(b).astype(np.uint64) >> np.uint64(32)
    return high.astype(np.uint32).view(np.int32)


def _of_bits(numbers: Callable, bits: Callable) -> Callable:
    """Return an operation that is another one for single bits."""
    return lambda a, b: (bits if a.dtype == np.bool_ else numbers)(a, b)


def _each(f: Callable[[float], float]) -> Callable[[Array], Array]:
    return lambda x: np.vectorize(f, otypes=[np.float64])(x).astype(x.dtype)


_INTEGERS: dict[str, Callable] = {"eq": np.equal, "ne": np.not_equal}
_ORDER = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
for _how, _f in _ORDER.items():
    _INTEGERS |= {f"s{_how}": _signed_compare(_f), f"u{_how}": unsigned_too(_f)}


def _compare_fractions(how: str) -> Callable:
    if how in ("true", "false"):
        return lambda a, b: np.broadcast_to(np.bool_(how == "true"), np.shape(a))
    if how in ("ord", "uno"):
        return lambda a, b: (np.isnan(a) | np.isnan(b)) == (how == "uno")
    f = {**_ORDER, "eq": np.equal, "ne": np.not_equal}[how[1:]]
    if how[0] == "o":
        return lambda a, b: f(a, b) & ~(np.isnan(a) | np.isnan(b))
    return lambda a, b: f(a, b) | np.isnan(a) | np.isnan(b)


_BINARY: dict[str, Callable] = {
    "arith.addi": _of_bits(np.add, np.logical_xor),
    "arith.subi": _of_bits(np.subtract, np.logical_xor),
    "arith.muli": _of_bits(np.multiply, np.logical_and),
    "arith.divsi": _cut_off,
    "arith.divui": unsigned_too(np.floor_divide),
    "arith.remsi": np.fmod,
    "arith.remui": unsigned_too(np.remainder),
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.shli": np.left_shift,
    "arith.shrsi": np.right_shift,
    "arith.shrui": unsigned_too(np.right_shift),
    "arith.maxsi": _of_bits(np.maximum, np.logical_and),
    "arith.minsi": _of_bits(np.minimum, np.logical_or),
    "arith.maxui": unsigned_too(np.maximum),
    "arith.minui": unsigned_too(np.minimum),
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "tt.precise_divf": np.divide,
    "arith.remf": np.fmod,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "math.copysign": np.copysign,
    "tt.mulhiui": _high_half,
}
_UNARY: dict[str, Callable] = {
    "arith.negf": np.negative,
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.log": np.log,
    "math.log2": np.log2,
    "math.sin": np.sin,
    "math.cos": np.cos,
    "math.tanh": np.tanh,
    "math.sqrt": np.sqrt,
    "tt.precise_sqrt": np.sqrt,
    "math.rsqrt": lambda x: (1 / np.sqrt(x)).astype(x.dtype),
    "math.absf": np.abs,
    "math.absi": np.abs,
    "math.erf": _each(math.erf),
    "math.floor": np.floor,
    "math.ceil": np.ceil,
    "math.trunc": np.trunc,
    "math.roundeven": np.rint,
}
# which a reduction does to a whole axis at once; of others it is done pair by pair
WHOLE_AXIS: dict[str, Any] = {
    name: _BINARY[name]
    for name in ("arith.addf", "arith.mulf", "arith.maxnumf", "arith.minnumf", "arith.maximumf",
                 "arith.minimumf", "arith.andi", "arith.ori", "arith.xori")
}  # fmt: skip
WHOLE_AXIS |= {"arith.addi": np.add, "arith.maxsi": np.maximum, "arith.minsi": np.minimum}


def function_for(op: Op) -> Callable[..., Any]:
    """Return what an operation without memory, regions or a program id does to its operands.

    Raises NotUnderstood for any other.
    """
    name, rest = op.name, op.rest
    kind = op.types[0] if op.types else Type(None, "")
    if name in _BINARY:
        return _in_its_dtype(_BINARY[name], kind)
    if name in _UNARY:
        return _in_its_dtype(_UNARY[name], kind)
    if name == "math.fma":
        return _in_its_dtype(lambda a, b, c: a * b + c, kind)
    if name == "arith.cmpi":
        return _INTEGERS[rest.split(",")[0].strip()]
    if name == "arith.cmpf":
        return _compare_fractions(rest.split(",")[0].strip())
    if name == "arith.select":
        return lambda c, a, b: np.where(c, a, b)
    if name in _MAKERS:
        made: Callable = _MAKERS[name](op, kind)
        return made
    if name in ("arith.constant", "ub.poison"):
        constant = _constant("0" if name == "ub.poison" else rest, kind)
        return lambda: constant
    raise NotUnderstood(f"`{name}`")


def _in_its_dtype(f: Callable, kind: Type) -> Callable:
    if kind.element in ODD:
        return lambda *operands: rounded(f(*operands), kind.element)
    return f


def _constant(rest: str, kind: Type) -> Array:
    text = rest.strip().partition(" : ")[0]
    if text in ("true", "false"):
        return np.bool_(text == "true")
    found = re.fullmatch(r"dense<(.*)>", text)
    texts = re.findall(r"[^\[\],\s]+", found[1] if found else text)
    numbers = np.array([_number(one, kind) for one in texts])
    if kind.shape is None:
        return numbers[0]
    shape = kind.shape
    return np.broadcast_to(numbers[0], shape) if len(texts) == 1 else numbers.reshape(shape)


def _number(text: str, kind: Type) -> Array:
    dtype = dtype_of(kind)
    if text in ("true", "false"):
        return np.bool_(text == "true")
    if dtype.kind != "f":
        return np.array(int(text, 0)).astype(dtype)[()]
    if text.startswith("0x"):
        bits = bits_of(kind.element)
        return decoded(
            np.array([int(text, 16)], np.uint64)
            .astype(_UNSIGNED.get(bits, f"u{bits.itemsize}"))
            .view(bits),
            kind.element,
        )[0]
    return rounded(np.array([float(text)]).astype(dtype), kind.element)[0]


# Operations that look at what is written beside their operands ---------------------------------


def integer_of(rest: str, key: str) -> int:
    """Return a whole number that is written beside an operation as ``key = 3``."""
    found = re.search(rf"\b{key} = (-?\d+)", rest)
    if not found:
        raise NotUnderstood(f"an operation without {key}")
    return int(found[1])


def _range(op: Op, kind: Type) -> Callable:
    made = np.arange(integer_of(op.rest, "start"), integer_of(op.rest, "end"), dtype=np.int32)
    return lambda: made


def _shaped(how: Callable[[Array, Any], Array]) -> Callable[[Op, Type], Callable]:
    return lambda op, kind: lambda x: how(x, kind.shape)


def _expand(op: Op, kind: Type) -> Callable:
    axis = integer_of(op.rest, "axis")
    return lambda x: np.expand_dims(x, axis)


def _transpose(op: Op, kind: Type) -> Callable:
    found = re.search(r"order = array<i32: ([\d, ]+)>", op.rest)
    if not found:
        raise NotUnderstood("a transposition without an order")
    order = [int(n) for n in found[1].split(",")]
    return lambda x: x.transpose(order)


def _to_fraction(op: Op, kind: Type) -> Callable:
    def convert(x: Array) -> Array:
        x = unsigned(x) if op.name == "arith.uitofp" else _signed(x)
        return rounded(x.astype(dtype_of(kind)), kind.element)

    return convert


def _between_fractions(op: Op, kind: Type) -> Callable:
    return lambda x: rounded(x.astype(dtype_of(kind)), kind.element)


def _to_integer(op: Op, kind: Type) -> Callable:
    """As a GPU converts: what is out of range becomes the nearest end, NaN becomes 0."""
    wide = np.int64 if kind.element == "i64" else np.int32
    has_sign = op.name == "arith.fptosi"
    ends = np.iinfo(wide if has_sign else _UNSIGNED[np.dtype(wide)])

    def convert(x: Array) -> Array:
        whole = np.trunc(
            np.nan_to_num(np.asarray(x, np.float64), nan=0.0, posinf=2.0**65, neginf=-(2.0**65))
        )
        inside = np.where((whole > ends.min) & (whole < ends.max), whole, 0.0).astype(ends.dtype)
        held = np.where(whole >= ends.max, ends.max, np.where(whole <= ends.min, ends.min, inside))
        return held.astype(ends.dtype).view(wide).astype(dtype_of(kind))

    return convert


def _other_bits(op: Op, kind: Type) -> Callable:
    def view(x: Array) -> Array:
        bits = encoded(x, op.source.element)
        return decoded(bits.view(bits_of(kind.element)), kind.element)

    return lambda x: x if kind.to or op.source.to else view(x)


def _truncate(op: Op, kind: Type) -> Callable:
    if kind.element == "i1":
        return lambda x: (x & x.dtype.type(1)).astype(np.bool_)
    return lambda x: x.astype(dtype_of(kind))


def _dot(op: Op, kind: Type) -> Callable:
    """Whole tiles, summed in float32 (in float64 or int32 if they are of these)."""
    dtype = dtype_of(kind)
    inside = np.float32 if dtype == np.float16 else dtype

    def dot(a: Array, b: Array, acc: Array) -> Array:
        product = np.matmul(a.astype(inside), b.astype(inside))
        return rounded((product + acc).astype(dtype), kind.element)

    return dot


def _clamp(op: Op, kind: Type) -> Callable:
    if "propagateNan = all" in op.rest:
        return lambda x, low, high: np.minimum(np.maximum(x, low), high)
    return lambda x, low, high: np.fmin(np.fmax(x, low), high)


def _histogram(op: Op, kind: Type) -> Callable:
    (n,) = kind.shape or (0,)

    def count(x: Array, mask: Array = True) -> Array:
        inside = (x >= 0) & (x < n) & mask
        return np.bincount(x[inside], minlength=n).astype(dtype_of(kind))

    return count


def _gather(op: Op, kind: Type) -> Callable:
    axis = integer_of(op.rest, "axis")
    return lambda x, at: np.take_along_axis(x, at.astype(np.int64), axis)


def _pass_on(op: Op, kind: Type) -> Callable:
    return lambda x: x


_MAKERS: dict[str, Callable[[Op, Type], Callable]] = {
    "tt.make_range": _range,
    "tt.splat": _shaped(np.broadcast_to),
    "tt.unsplat": lambda op, kind: lambda x: x.reshape(-1)[0],
    "tt.broadcast": _shaped(np.broadcast_to),
    "tt.reshape": _shaped(np.reshape),
    "tt.expand_dims": _expand,
    "tt.trans": _transpose,
    "tt.cat": lambda op, kind: lambda a, b: np.concatenate((a, b)),
    "tt.join": lambda op, kind: lambda a, b: np.stack((a, b), -1),
    "tt.split": lambda op, kind: lambda x: (x[..., 0], x[..., 1]),
    "tt.ptr_to_int": _pass_on,
    "tt.int_to_ptr": _pass_on,
    "tt.bitcast": _other_bits,
    "arith.bitcast": _other_bits,
    "arith.sitofp": _to_fraction,
    "arith.uitofp": _to_fraction,
    "arith.extf": _between_fractions,
    "arith.truncf": _between_fractions,
    "tt.fp_to_fp": _between_fractions,
    "arith.fptosi": _to_integer,
    "arith.fptoui": _to_integer,
    "arith.extsi": lambda op, kind: lambda x: _signed(x).astype(dtype_of(kind)),
    "arith.extui": lambda op, kind: lambda x: unsigned(x).astype(dtype_of(kind)),
    "arith.index_cast": lambda op, kind: lambda x: x.astype(dtype_of(kind)),
    "arith.trunci": _truncate,
    "tt.dot": _dot,
    "tt.clampf": _clamp,
    "tt.histogram": _histogram,
    "tt.gather": _gather,
}


def over_axis(name: str, x: Array, axis: int) -> Array:
    """Reduce an axis by one of `WHOLE_AXIS`."""
    return WHOLE_AXIS[name].reduce(x, axis=axis, dtype=x.dtype)


def no_regions(ops: Sequence[Op]) -> bool:
    """Return whether these operations can be done to many numbers at once."""
    return not any(op.regions for op in ops)
