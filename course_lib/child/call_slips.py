"""How a kernel is launched, and how the functions of triton.language are called: slips in words.

The interpreter says of them what Python says: that a number is no list, that an argument is
missing, that a function cannot be multiplied.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

_FLOAT_GRID = "a grid needs whole numbers: `n / block` is a float, `triton.cdiv(n, block)` is not"

Space = Mapping[str, Any]  # name -> what it stands for


def in_launch(statement: ast.stmt, text: str) -> str:
    """Return what is wrong with the grid if ``kernel[grid](...)`` stands in a statement."""
    for call in ast.walk(statement):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Subscript)):
            continue
        if re.search(r"'float' object (is not iter|cannot be interpreted as an integer)", text):
            return _FLOAT_GRID
        if "'int' object is not iterable" in text:
            kernel, grid = ast.unparse(call.func.value), ast.unparse(call.func.slice)
            return (
                f"a grid is a tuple, with a comma after a single number: {kernel}[({grid},)](...)"
            )
    return ""


def without_grid(kernel: ast.FunctionDef, space: Space) -> str:
    """Return what to write if a kernel was called as a function of Python's.

    The arguments of a kernel that was launched are pointers and numbers, no tensors of PyTorch's.
    """
    if any(_is_of_torch(space.get(one.arg)) for one in kernel.args.args):
        return f"a kernel is launched with a grid: {kernel.name}[(programs,)](...)"
    return ""


def not_called(statements: Iterable[ast.stmt], space: Space, text: str) -> str:
    """Return which function of triton.language is used as a number: its brackets are missing."""
    if not re.search(r"'function'|<function", text):
        return ""
    for statement in statements:
        called = {id(x.func) for x in ast.walk(statement) if isinstance(x, ast.Call)}
        for node in ast.walk(statement):
            if not isinstance(node, ast.Attribute) or id(node) in called:
                continue
            if inspect.isfunction(_of_triton(node, space)):
                name = ast.unparse(node)
                return f"`{name}` is the function itself: call it, {name}(...)"
    return ""


def argument_missing(statement: ast.stmt, space: Space, text: str) -> str:
    """Return what a function of triton.language takes, if it was given too few."""
    found = re.search(r"(\w+)\(\) missing \d+ required positional arg", text)
    for call in ast.walk(statement) if found else ():
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        function = _of_triton(call.func, space)
        if found and call.func.attr == found[1] and callable(function):
            name, takes = ast.unparse(call.func), ", ".join(_required(function))
            return f"{name} takes ({takes}), and here it got `{_given(call)}`" if takes else ""
    return ""


def two_for_an_axis(statement: ast.stmt, space: Space, text: str) -> str:
    """Return what to write if ``tl.max(a, b)`` was to be the larger of two values."""
    for call in ast.walk(statement) if "axis" in text else ():
        if isinstance(call, ast.Call) and len(call.args) == 2:
            name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            if name in ("max", "min") and _of_triton(call.func, space):
                wrote = ast.unparse(call.func)
                return (
                    f"{wrote}(x, axis) looks through one tile along an axis; of two values take "
                    f"{wrote}imum(a, b)"
                )
    return ""


def nothing_returned(statement: ast.stmt, space: Space, text: str) -> str:
    """Return which helper of the kernel gave None: it ends without a ``return``."""
    calls = [x.func for x in ast.walk(statement) if isinstance(x, ast.Call)]
    for name in (x.id for x in calls if isinstance(x, ast.Name) and "NoneType" in text):
        code = getattr(getattr(space.get(name), "fn", None), "__code__", None)
        if code and not re.search(r"\breturn\b", "".join(inspect.getsourcelines(code)[0])):
            return f"{name} returned nothing: does it end with `return`?"
    return ""


def _required(function: Any) -> list[str]:
    """Return the names of the arguments that a function cannot do without.

    The interpreter replaces a function by one that has it as the default of ``member``.
    """
    takes = inspect.signature(function).parameters
    if "member" in takes:
        takes = inspect.signature(takes["member"].default).parameters
    plain = [x for x in takes.values() if x.kind is x.POSITIONAL_OR_KEYWORD]
    return [x.name for x in plain if x.default is x.empty]


def _given(call: ast.Call) -> str:
    return "(" + ", ".join(ast.unparse(x) for x in (*call.args, *call.keywords)) + ")"


def _of_triton(node: ast.expr, space: Space) -> Any:
    """Return what a dotted name stands for if it begins with triton or triton.language."""
    if isinstance(node, ast.Name):
        found = space.get(node.id)
        of_triton = isinstance(found, ModuleType) and found.__name__.split(".")[0] == "triton"
        return found if of_triton else None
    if isinstance(node, ast.Attribute):
        owner = _of_triton(node.value, space)
        return getattr(owner, node.attr, None) if isinstance(owner, ModuleType) else None
    return None


def _is_of_torch(x: Any) -> bool:
    return type(x).__name__ == "Tensor" and type(x).__module__.split(".")[0] == "torch"
