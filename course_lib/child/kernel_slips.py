"""Triton's interpreter stumbles over NumPy and pointers late, in its own words; here in ours.

Asked is the statement in which a kernel failed, and what its names stood for at that moment: so
what is said of a pointer is said of something that was one.

Longer than 400 lines because each slip is a small function of its own, and they share one place.
"""

from __future__ import annotations

import ast
import difflib
import linecache
import re
from collections.abc import Iterator, Mapping
from types import FrameType, ModuleType
from typing import Any, NamedTuple

from course_lib.child.call_slips import (
    argument_missing,
    in_launch,
    not_called,
    nothing_returned,
    two_for_an_axis,
    without_grid,
)
from course_lib.child.shape_slips import row_for_column, tile_indexed

_FOREIGN = {"numpy": "NumPy's", "torch": "PyTorch's", "math": "Python's"}
_SHAPED = {"zeros", "full", "reshape", "view", "broadcast_to"}  # tl's, which take one tuple
_OF_PYTHON = {"max", "min", "sum", "abs"}  # of numbers, or a list of them; tl has its own
_OF_ARRAYS = {"shape", "stride", "strides", "size", "numel", "dim", "ndim", "T"}
_ACCESS = {"load", "store"}

Space = Mapping[str, Any]  # name -> what it stands for


class _Place(NamedTuple):
    """The statement that failed, the function that it stands in, and what its names stand for."""

    statement: ast.stmt
    function: ast.FunctionDef
    space: Space


def explain_frame(frame: FrameType, line: int, error: BaseException, in_kernel: bool) -> str:
    """Return one sentence (no full stop) on why ``line`` failed there, "" if it is not known."""
    text, space = str(error), {**frame.f_globals, **frame.f_locals}
    if isinstance(error, NameError):
        return _not_defined(getattr(error, "name", None) or "", space)
    if isinstance(error, ValueError) and re.match(r"(max|min)\(\) .*empty", text):
        return "nothing is left there: which line before throws all of it away, and should it?"
    place = place_of(frame.f_code.co_filename, line)
    if place is None:
        return ""
    if not _is_kernel(place[1]):
        return in_launch(place[0], text) or row_for_column(place[0], space, text)
    if says := without_grid(place[1], frame.f_locals):
        return says
    if not in_kernel:
        return ""
    rules = (_index_of_pointer, _pointer_dtype, _array_of_pointer, _shape_in_parts, _of_python,
             _two_dtypes, _call, _foreign, _pointer_for_numbers, _method)  # fmt: skip
    here = _Place(*place, space)
    return next(filter(None, (rule(here, text) for rule in rules)), "")


def _is_kernel(function: ast.FunctionDef) -> bool:
    """Return whether Triton runs a function: a launcher may call what it likes."""
    return any("jit" in ast.unparse(one) for one in function.decorator_list)


def place_of(file: str, line: int) -> tuple[ast.stmt, ast.FunctionDef] | None:
    """Return the innermost statement on a line of a file (or cell), and its function."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]  # the outermost first
    functions = [node for node in around if isinstance(node, ast.FunctionDef)]
    if not functions or isinstance(around[-1], ast.FunctionDef):
        return None
    return around[-1], functions[-1]


# Names -------------------------------------------------------------------------------------------


def _not_defined(name: str, space: Space) -> str:
    if not name:
        return ""
    known = [key for key in space if not key.startswith("_")]
    near = difflib.get_close_matches(name, known, 1, 0.8)
    if near:
        return f"`{name}` is not defined here, and `{near[0]}` is: is that what you mean?"
    return (
        f"`{name}` is not defined here: import it, run the cell that defines it (again, after a "
        "restart), or copy it into this file if it belongs to another exercise"
    )


# NumPy, PyTorch, Python --------------------------------------------------------------------------


def _call(place: _Place, text: str) -> str:
    before = (place.statement, *_sources(place.statement, place.function))
    rules = (argument_missing, two_for_an_axis, nothing_returned, tile_indexed)
    said = (rule(place.statement, place.space, text) for rule in rules)
    return not_called(before, place.space, text) or next(filter(None, said), "")


def _foreign(place: _Place, text: str) -> str:
    """A function of NumPy's or PyTorch's made what failed, in this statement or before it."""
    for node in (place.statement, *_sources(place.statement, place.function)):
        for call in _calls(node):
            if whose := _module(call.func, place.space):
                wrong, name = ast.unparse(call.func), ast.unparse(call.func).split(".")[-1]
                return (
                    f"`{wrong}` is {whose}, and a kernel takes its functions from triton.language"
                    + (
                        f": write tl.{name}"
                        if _in_triton(name, place.space)
                        else ": take one of tl"
                    )
                )
    return ""


def _module(called: ast.expr, space: Space) -> str:
    """Return whose function is called, "" if it is none of NumPy, PyTorch, math."""
    root = called
    while isinstance(root, ast.Attribute):
        root = root.value
    found = space.get(root.id) if isinstance(root, ast.Name) else None
    if not isinstance(found, ModuleType) or root is called:
        return ""
    return _FOREIGN.get(found.__name__.split(".")[0], "")


def _sources(statement: ast.stmt, function: ast.FunctionDef) -> Iterator[ast.stmt]:
    """Yield the assignments before a statement to the names that it uses."""
    used = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and node.lineno < statement.lineno:
            names = {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
            yield from [node] if names & used else []


def _of_python(place: _Place, text: str) -> str:
    for call in _calls(place.statement):
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if name not in _OF_PYTHON or name in place.space or len(call.args) != 1:
            continue
        if _is_tile(_value(call.args[0], place.space)):
            tile = ast.unparse(call.args[0])
            axis = "" if name == "abs" else ", 0"
            return f"Python's `{name}` does not work on a tile: write tl.{name}({tile}{axis})"
    return ""


def _method(place: _Place, text: str) -> str:
    if "'to_tensor'" not in text:
        return ""
    for call in _calls(place.statement):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if _in_triton(name, place.space) and not _is_of_triton(call.func, place.space):
            return f"as a method, .{name}() does not run here: write tl.{name}(...)"
    return ""


def _shape_in_parts(place: _Place, text: str) -> str:
    if "is not iterable" not in text:
        return ""
    for call in _calls(place.statement):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        first = 0 if name in ("zeros", "full") else 1
        sizes = call.args[first:]
        if name not in _SHAPED or not _is_of_triton(call.func, place.space) or not sizes:
            continue
        if isinstance(sizes[0], ast.Name | ast.Constant) and len(sizes) > 1:
            told = ", ".join(
                ast.unparse(x) for x in sizes if isinstance(x, ast.Name | ast.Constant)
            )
            return f"the shape that tl.{name} takes is one tuple, in brackets of its own: ({told})"
    return ""


# Pointers ----------------------------------------------------------------------------------------


def _index_of_pointer(place: _Place, text: str) -> str:
    for node in ast.walk(place.statement):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            name, index = node.value.id, ast.unparse(node.slice)
            if not _is_pointer(place.space.get(name)) or "None" in index or ":" in index:
                continue
            says = f"`{name}` is a pointer, no array"
            if isinstance(node.ctx, ast.Store):
                return f"{says}: tl.store({name} + {index}, ..., mask=...)"
            sums = [x for x in ast.walk(place.statement) if isinstance(x, ast.BinOp)]
            block = getattr(place.space.get(index), "type", None)
            if any(node in (x.left, x.right) for x in sums) and not (block and block.is_block()):
                return f"{says}: that row begins at {name} + {index} * (the row stride)"
            return f"{says}: tl.load({name} + {index}, mask=...)"
    return ""


def _pointer_dtype(place: _Place, text: str) -> str:
    for node in ast.walk(place.statement):
        if isinstance(node, ast.Attribute) and node.attr == "dtype":
            name = node.value.id if isinstance(node.value, ast.Name) else ""
            if _is_pointer(place.space.get(name)) and "pointer<" in text:
                tile = _loaded_from(name, place.function)
                return (
                    f"`{name}` is a pointer, and {name}.dtype the type of an address: write "
                    + (f"{tile}.dtype, or " * bool(tile))
                    + f"{name}.dtype.element_ty"
                )
    return ""


def _array_of_pointer(place: _Place, text: str) -> str:
    for node in ast.walk(place.statement):
        if isinstance(node, ast.Attribute) and node.attr in _OF_ARRAYS:
            name = node.value.id if isinstance(node.value, ast.Name) else ""
            if _is_pointer(place.space.get(name)):
                return (
                    f"`{name}` is a pointer, which has no .{node.attr}: sizes and strides are "
                    "numbers that the launcher passes"
                )
    return ""


def _pointer_for_numbers(place: _Place, text: str) -> str:
    """A pointer stands where numbers are meant, or something that is no whole number is added."""
    said = r"pointer<|add pointers|'pointer_type'|0- or 1-dimensional tensor"
    if not re.search(said, text):
        return ""
    for name in _outside_of_access(place.statement, place.space):
        if _is_pointer(place.space.get(name)):
            return (
                f"`{name}` is a pointer, and only whole numbers can be added to it: if its numbers "
                f"are meant, load them first, tl.load({name} + ...)"
            )
    return ""


def _outside_of_access(node: ast.AST, space: Space) -> Iterator[str]:
    """Yield the names that are read under a node, but not as the address of a load or store."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        access = node.func.attr in _ACCESS or node.func.attr.startswith("atomic")
        if access and _is_of_triton(node.func, space):
            children = [*node.args[1:], *node.keywords]
    for child in children:
        yield from _outside_of_access(child, space)


# Two dtypes --------------------------------------------------------------------------------------


def _two_dtypes(place: _Place, text: str) -> str:
    found = re.search(r"operands must be same dtype. Got (\w+) and (\w+)", text)
    return two_dtypes(found[1], found[2], ast.unparse(place.statement)) if found else ""


def two_dtypes(a: str, b: str, statement: str) -> str:
    """Return what to cast in a statement whose ``tl.dot`` got tiles of two dtypes, a and b."""
    says = f"`tl.dot` got {a} and {b}: cast one to the other's dtype"
    try:
        tree = ast.parse(statement.strip())
    except SyntaxError:
        return f"{says}, a.to(b.dtype) of two tiles a and b"
    dots = [c for c in _calls(tree) if ast.unparse(c.func) == "tl.dot" and len(c.args) > 1]
    if len(dots) != 1:
        return f"{says}, a.to(b.dtype) of two tiles a and b"
    first, second = map(_untransposed, dots[0].args[:2])
    if not all(isinstance(x, ast.Name) for x in (first, second)):
        return f"{says}, a.to(b.dtype) of two tiles a and b"
    return f"{says}, {ast.unparse(first)}.to({ast.unparse(second)}.dtype)"


def _untransposed(x: ast.expr) -> ast.expr:
    """Return what is transposed, which has the same dtype."""
    if isinstance(x, ast.Call) and ast.unparse(x.func) == "tl.trans" and x.args:
        return x.args[0]
    return x.value if isinstance(x, ast.Attribute) and x.attr == "T" else x


# What a name stands for --------------------------------------------------------------------------


def _calls(node: ast.AST) -> list[ast.Call]:
    return [found for found in ast.walk(node) if isinstance(found, ast.Call)]


def _value(node: ast.expr, space: Space) -> Any:
    return space.get(node.id) if isinstance(node, ast.Name) else None


def _is_tile(x: Any) -> bool:
    return type(x).__name__ == "tensor" and hasattr(x, "handle")


def _is_pointer(x: Any) -> bool:
    """Return whether this is a pointer of a kernel's, or a tile of them."""
    scalar = getattr(getattr(x, "type", None), "scalar", None)
    return _is_tile(x) and bool(getattr(scalar, "is_ptr", lambda: False)())


def _is_of_triton(node: ast.expr, space: Space) -> bool:
    """Return whether this is triton.language or something in it."""
    while isinstance(node, ast.Attribute):
        node = node.value
    found = _value(node, space)
    return isinstance(found, ModuleType) and found.__name__.split(".")[0] == "triton"


def _in_triton(name: str, space: Space) -> bool:
    """Return whether triton.language has a function of this name."""
    languages = (
        x for x in space.values()
        if isinstance(x, ModuleType) and x.__name__ == "triton.language"
    )  # fmt: skip
    return any(callable(getattr(x, name, None)) for x in languages)


def _loaded_from(pointer: str, function: ast.FunctionDef) -> str:
    """Return the name of a tile that is loaded from a pointer, "" if there is none."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            load = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "tl.load"
            if load and pointer in {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}:
                return node.targets[0].id
    return ""


# Masks -------------------------------------------------------------------------------------------


def mask_slip(frame: FrameType, line: int) -> str:
    """Return what is wrong in how the mask of the access on a line is joined, "" if nothing is.

    ``a < n & b < m`` without brackets, and ``and`` or ``or`` between tiles.
    """
    place = place_of(frame.f_code.co_filename, line)
    if place is None:
        return ""
    statement, function = place
    masks = [
        keyword.value
        for call in _calls(statement)
        for keyword in call.keywords
        if keyword.arg == "mask"
    ]
    for mask in _with_what_they_name(masks, function):
        for node in ast.walk(mask):
            if says := _unbracketed(node) or _joined_by_a_word(node, frame.f_locals):
                return says
    return ""


def _with_what_they_name(masks: list[ast.expr], function: ast.FunctionDef) -> list[ast.expr]:
    """Return masks and the expressions that are assigned to the names in them."""
    found, seen = list(masks), set[str]()
    for mask in found:  # grows
        names = {n.id for n in ast.walk(mask) if isinstance(n, ast.Name)} - seen
        seen |= names
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and node.value not in found:
                targets = [t.id for t in node.targets if isinstance(t, ast.Name)]
                found += [node.value] if names & set(targets) else []
    return found


def _unbracketed(node: ast.AST) -> str:
    if not isinstance(node, ast.Compare) or len(node.ops) < 2:
        return ""
    joined = [x for x in node.comparators[:-1] if isinstance(x, ast.BinOp)]
    if not any(isinstance(x.op, ast.BitAnd | ast.BitOr) for x in joined):
        return ""
    sign = "&" if any(isinstance(x.op, ast.BitAnd) for x in joined) else "|"
    return (
        f"in `{ast.unparse(node)}` {sign} is worked out before <: put each comparison into "
        f"brackets, (a < n) {sign} (b < m)"
    )


def _joined_by_a_word(node: ast.AST, space: Space) -> str:
    if not isinstance(node, ast.BoolOp) or not all(_is_mask(x, space) for x in node.values):
        return ""
    word, sign = ("and", "&") if isinstance(node.op, ast.And) else ("or", "|")
    return (
        f"`{word}` keeps one of the two masks and forgets the other: join masks element by element "
        f"with {sign}, (a < n) {sign} (b < m)"
    )


def _is_mask(x: ast.expr, space: Space) -> bool:
    """Return whether this compares a tile with something, or is one."""
    names = [n.id for n in ast.walk(x) if isinstance(n, ast.Name)]
    return any(_is_tile(space.get(n)) and len(space[n].shape) > 0 for n in names)
