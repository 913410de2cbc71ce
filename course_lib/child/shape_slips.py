"""PyTorch tells two sizes that do not meet, no shapes and no names; here with both."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

_SAID = "must match the size of tensor"


def row_for_column(statement: ast.stmt, space: Mapping[str, Any], text: str) -> str:
    """Return which operand with one axis is to be a column, "" if there is none, or no need."""
    if _SAID not in text:
        return ""
    for node in ast.walk(statement):
        for side in (node.left, node.right) if isinstance(node, ast.BinOp) else ():
            if _has_one_axis(side, space):
                row = ast.unparse(side)
                return (
                    f"`{row}` has one axis: if it is a number for each row, make a column of it, "
                    f"`{row}[:, None]`"
                )
    return ""


def tile_indexed(statement: ast.stmt, space: Mapping[str, Any], text: str) -> str:
    """Return what to do instead if one number was to be taken out of a kernel's tile."""
    for node in ast.walk(statement) if "is not iterable" in text else ():
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            name, one = node.value.id, isinstance(node.slice, ast.Constant | ast.UnaryOp)
            if one and hasattr(space.get(name), "handle"):
                return (
                    f"no single number can be taken out of a tile: work out what `{name}` holds "
                    "there from the number of the program and the size of its block"
                )
    return ""


def _has_one_axis(node: ast.expr, space: Mapping[str, Any]) -> bool:
    """Return whether this is a name of something with one axis, or a part of it without a None."""
    if isinstance(node, ast.Subscript):
        parts = list(ast.walk(node.slice))
        if any(isinstance(x, ast.Tuple) or getattr(x, "value", 0) is None for x in parts):
            return False
        node = node.value
    return isinstance(node, ast.Name) and getattr(space.get(node.id), "ndim", 0) == 1
