"""What Triton's interpreter does with operands of some types, remembered: one more shortcut.

For each ``a + b`` on tiles the interpreter decides anew, as a compiler does, by types and shapes
alone, which of the builder's functions it calls: whether a side is spread or converted, and which
sum it is. Here it is listened to once for each operation and types; later the same functions are
called on the new numbers at once. Whoever watches the builder's functions hears of each as before.
Two thirds of the time of a kernel were such decisions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import triton.language as tl
from triton.runtime import interpreter

_SUMS = {"__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__"}
_SUMS |= {"__truediv__", "__rtruediv__"}
_COMPARISONS = {"__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"}
_BITS = {"__and__", "__or__", "__xor__"}
# of ``tl``, ``tl.math`` and ``tl.tensor``: what they build depends on types and constants alone
_FUNCTIONS = {"__neg__", "__invert__", "arange", "broadcast_to", "cast", "dot", "exp", "exp2"}
_FUNCTIONS |= {"expand_dims", "full", "log", "log2", "maximum", "minimum", "rsqrt", "sqrt", "to"}
_FUNCTIONS |= {"trans", "where"}
_WHOLE, _FRACTIONS = {"int32", "int64"}, {"fp32", "fp64"}
_MOST_KEPT = 4 << 20  # bytes of tiles that hold one number each
_MOST_RECIPES = 256  # of a function: its constants may be different in each call
_CONSTANTS = {int, float, bool, str, type(None)}
_CONSTANTS |= {
    getattr(interpreter._ir, name, int) for name in ("CACHE_MODIFIER", "EVICTION_POLICY")
}
_ALL = slice(None)
_MISSING: Any = object()

Handle = interpreter.TensorHandle
_new = object.__new__


class _Recipe(NamedTuple):
    """What makes a result: ``run(builder, *handles)`` gives its handle, ``fields`` are the rest."""

    run: Callable[..., Any]
    fields: dict[str, Any]


class _Listener:
    """A builder that writes down what it is asked for."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder
        self.heard: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = []

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._builder, name)
        if not callable(function):
            return function

        def listen(*args: Any, **options: Any) -> Any:
            answer = function(*args, **options)
            self.heard.append((name, args, options, answer))
            return answer

        return listen


@cache  # what is remembered depends on types alone, and is of use until the process ends
def remembering(name: str, operation: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return an operation of ``tl`` or a tile that remembers, None if it is none known here."""
    if name in _FUNCTIONS:
        call = _of_any(operation)
        return lambda *args, **options: call(args, options)
    if name == "__getitem__":
        return _with_new_axes(operation)
    takes = _taken_by_sums if name in _SUMS else _compared_with if name in _COMPARISONS else None
    return _of_two(operation, takes) if takes or name in _BITS else None


def _of_two(
    operation: Callable[..., Any], takes: Callable[[Any, Any], bool] | None
) -> Callable[..., Any]:
    """Return an operator; a number that its tile ``takes`` stands for a tile of that number."""
    semantic = interpreter.interpreter_semantic
    recipes: dict[tuple[str, str], _Recipe | None] = {}

    def operate(x: Any, y: Any, **options: Any) -> Any:
        kind = type(y)
        if kind is not tl.tensor:
            if takes is None or (kind is not int and kind is not float) or not takes(x.dtype, y):
                return operation(x, y, _semantic=semantic)
            y = _filled(x.type, y)
        recipe = recipes.get((x.type.name, y.type.name), _MISSING)
        if recipe is None:
            return operation(x, y, _semantic=semantic)
        if recipe is _MISSING:
            key = x.type.name, y.type.name
            return _learnt(recipes, key, lambda: operation(x, y, _semantic=semantic), [x, y])
        return _tensor(recipe.run(semantic.builder, x.handle, y.handle), recipe.fields)

    return operate


@cache
def remembered_access(own: Callable[..., Any]) -> Callable[..., Any]:
    """Return a load or store of the semantic's that remembers.

    Of one number it depends on the numbers: Triton asks `if other`.
    """
    call = _of_any(lambda *args, **_: own(interpreter.interpreter_semantic, *args))

    def access(semantic: Any, ptr: Any, *args: Any) -> Any:
        return own(semantic, ptr, *args) if ptr.handle.data.size < 2 else call((ptr, *args), {})

    return access


def _of_any(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of positional and named arguments, tiles or constants."""
    semantic = interpreter.interpreter_semantic
    recipes: dict[Any, _Recipe | None] = {}

    def call(args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        tiles = list[Any]()
        key: Any = _keys(args, tiles)
        if key is not None and options:
            options.pop("_semantic", None)
            named = _keys(tuple(options.values()), tiles)
            key = None if named is None else (key, tuple(options), named)
        if recipe := recipes.get(key):
            handles = [x.handle for x in tiles]
            return _tensor(recipe.run(semantic.builder, *handles), recipe.fields)
        options["_semantic"] = semantic
        if key is None or key in recipes or len(recipes) == _MOST_RECIPES:
            return operation(*args, **options)
        return _learnt(recipes, key, lambda: operation(*args, **options), tiles)

    return call


def _keys(values: tuple[Any, ...], tiles: list[Any]) -> tuple[Any, ...] | None:
    """Return what values are for a compiler, gather the tiles; None if one is something else."""
    keys = []
    for x in values:
        kind = type(x)
        if kind is tl.tensor:
            keys.append(x.type.name)
            tiles.append(x)
        elif kind in _CONSTANTS:
            keys.append((kind, x))
        elif kind is tl.dtype:
            keys.append((kind, x.name))
        elif (kind is tuple or kind is list) and all(type(n) is int for n in x):
            keys.append((kind, *x))
        else:
            return None
    return tuple(keys)


def _with_new_axes(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``x[:, None]``."""
    semantic = interpreter.interpreter_semantic
    recipes: dict[tuple[str, tuple[bool, ...]], _Recipe | None] = {}

    def index(x: Any, at: Any, **options: Any) -> Any:
        plain = type(at) is tuple and all(i is None or (type(i) is slice and i == _ALL) for i in at)
        if not plain or type(x.type) is not tl.block_type:
            return operation(x, at, _semantic=semantic)
        key = x.type.name, tuple([i is None for i in at])
        recipe = recipes.get(key, _MISSING)
        if recipe is None:
            return operation(x, at, _semantic=semantic)
        if recipe is _MISSING:
            return _learnt(recipes, key, lambda: operation(x, at, _semantic=semantic), [x])
        return _tensor(recipe.run(semantic.builder, x.handle), recipe.fields)

    return index


def _learnt(
    recipes: dict[Any, _Recipe | None], key: Any, operate: Callable[[], Any], operands: list[Any]
) -> Any:
    """Operate; keep how it was done, or None if it was not by the builder alone."""
    semantic = interpreter.interpreter_semantic
    own = semantic.builder
    semantic.builder = listener = _Listener(own)
    try:
        answer = operate()
    finally:
        semantic.builder = own
    if len({id(x.handle) for x in operands}) == len(operands):  # of x + x nobody can tell which
        recipes[key] = _recipe(listener.heard, operands, answer)
    return answer


def _recipe(heard: list[Any], operands: list[Any], answer: Any) -> _Recipe | None:
    if type(answer) is not tl.tensor:
        return None
    calls = [call for call in heard if type(call[-1]) is Handle or not call[0].startswith("get_")]
    names = {id(x.handle): f"x{i}" for i, x in enumerate(operands)}
    head, lines, made = ", ".join(["builder", *names.values()]), list[str](), None
    constants: dict[str, Any] = {"__name__": __name__}  # so that no line of it is a student's
    for name, args, options, made in calls:
        if options or not args or any(isinstance(x, tl.tensor) for x in args):
            return None
        if any(type(x) is Handle and id(x) not in names for x in args):
            return None
        given = list[str]()
        for x in args:
            given.append(names[id(x)] if type(x) is Handle else f"c{len(constants)}")
            if type(x) is not Handle:
                constants[given[-1]] = x
        names[id(made)] = f"y{len(lines)}"
        lines.append(f" y{len(lines)} = builder.{name}({', '.join(given)})")
    if not lines or answer.handle is not made:
        return None
    exec(_code("\n".join([f"def run({head}):", *lines, f" return y{len(lines) - 1}"])), constants)
    fields = {name: value for name, value in vars(answer).items() if name != "handle"}
    return _Recipe(constants["run"], fields)


@cache
def _code(source: str) -> Any:
    """Return a recipe's source compiled: many have the same, and other constants."""
    return compile(source, __file__, "exec")


def _tensor(handle: Any, fields: dict[str, Any]) -> Any:
    tensor = _new(tl.tensor)
    tensor.__dict__ = {**fields, "handle": handle}
    return tensor


# Numbers ---------------------------------------------------------------------------------------


def _taken_by_sums(kind: Any, number: float) -> bool:
    """Return whether a tile of a type takes a number of Python's as one of its own."""
    if type(kind) is not tl.dtype:
        return False
    if type(number) is int:
        return kind.name in (_WHOLE | _FRACTIONS) and -(2**31) <= number < 2**31
    return kind.name in _FRACTIONS


def _compared_with(kind: Any, number: float) -> bool:
    """Return whether a number that is compared with becomes one of this very type."""
    if type(kind) is not tl.dtype:
        return False
    if type(number) is int:
        return kind.name == "int32" and -(2**31) <= number < 2**31
    usual = number == 0 or not math.isfinite(number) or 2.0**-126 <= abs(number) <= 2.0**127
    return kind.name == "fp32" and usual


_tiles: dict[tuple[str, type, float], Any] = {}
_kept = 0


def _filled(kind: Any, number: float) -> Any:
    """Return a tile of this type that is full of a number; nobody writes to it."""
    global _kept
    key = kind.name, type(number), number
    if (tile := _tiles.get(key)) is None:
        semantic = interpreter.interpreter_semantic
        tile = semantic.scalar_constant(number, kind.scalar)
        if type(kind) is tl.block_type:
            tile = semantic.tensor(semantic.builder.create_splat(kind, tile.handle), kind)
        tile.handle.data.setflags(write=False)
        _kept += tile.handle.data.nbytes
        if _kept > _MOST_KEPT:
            _tiles.clear()
            _kept = tile.handle.data.nbytes
        _tiles[key] = tile
    return tile
