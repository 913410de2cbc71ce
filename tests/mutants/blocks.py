"""What operators ask of statements: where they stand, what they read and write."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator

Put = Callable[[list[ast.stmt]], ast.AST]


def blocks(node: ast.AST) -> Iterator[tuple[list[ast.stmt], Put]]:
    """Yield each block of a statement, and a function that gives the statement another one."""
    if isinstance(node, ast.Module):
        return
    for field in ("body", "orelse"):
        body = getattr(node, field, None)
        if isinstance(body, list) and len(body) > 1:

            def put(new: list[ast.stmt], field: str = field) -> ast.AST:
                changed = copy.copy(node)
                setattr(changed, field, new)
                return changed

            yield body, put


def written(node: ast.AST) -> set[str]:
    """Return the names that a statement binds or changes in place."""
    names = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            names.add(part.id)
        if isinstance(part, ast.Subscript | ast.Attribute) and isinstance(part.ctx, ast.Store):
            names |= used(part.value)
    return names


def used(node: ast.AST) -> set[str]:
    """Return the names that a statement or an expression reads."""
    names = {
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    }
    if isinstance(node, ast.AugAssign):
        names |= written(node)
    return names


def independent(one: ast.stmt, other: ast.stmt) -> bool:
    """Return whether two statements can change places: assignments of unrelated names.

    Also those in a branch or a loop. Stores change places too, but not with what loads; what
    launches or leaves keeps its place.
    """
    mine, theirs = written(one), written(other)
    related = mine & (theirs | used(other)) or theirs & used(one)
    stores = _stores(one) or _stores(other)
    clash = stores and (is_load(one) or is_load(other))
    return _only_assigns(one) and _only_assigns(other) and not related and not clash


def _only_assigns(node: ast.stmt) -> bool:
    parts = [n for n in ast.walk(node) if isinstance(n, ast.stmt)]
    kinds = ast.Assign | ast.AugAssign | ast.If | ast.For | ast.While | ast.Pass
    return all(isinstance(part, kinds) or _stores(part) for part in parts)


def _stores(node: ast.stmt) -> bool:
    """Return whether this statement is a call that stores a tile, or a static assertion."""
    called = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    name = ast.unparse(node.value.func) if called else ""  # type: ignore[attr-defined]
    return name.startswith("tl.static_assert") or "store" in name


def is_launch(node: ast.AST) -> bool:
    """Return whether this is a launch: ``kernel[grid](...)``."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Subscript)
    )


def is_load(node: ast.AST) -> bool:
    """Return whether something is loaded here, by whatever function has that in its name."""
    calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
    return any("load" in ast.unparse(call.func) for call in calls)


def is_kernel(node: ast.AST) -> bool:
    """Return whether this is a jitted function."""
    return isinstance(node, ast.FunctionDef) and "jit" in " ".join(
        ast.unparse(d) for d in node.decorator_list
    )


def parameters(node: ast.FunctionDef) -> list[str]:
    """Return the names of a function's parameters, in order."""
    arguments = node.args
    return [a.arg for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]]
