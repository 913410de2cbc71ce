"""The statement at the top level of a student's file or notebook that binds a name."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from course_lib.child.definition import closure
from course_lib.child.leaked_names import bound_by, parsed, texts


def binding_statement(
    name: str, namespace: dict[str, Any], thing: Any, *, above: int = 0
) -> tuple[str, int] | None:
    """Return the last assignment, ``def`` or ``class`` at top level that binds ``name``, or None.

    For what has no literal: a logger, a lambda, a cached function, an object of one's own class.
    With it comes its place, as ``above`` for what a name meant there: so many statements, counted
    from the last one, are passed over.
    """
    if isinstance(thing, FunctionType) and name in closure(thing):
        return None
    for place, node in enumerate(_last_first(namespace, thing), 1):
        if place > above and name in _bound_at_top(node):
            return ast.unparse(node), place
    return None


def _last_first(namespace: dict[str, Any], thing: Any) -> Iterator[ast.stmt]:
    for text in reversed(list(texts(namespace, thing))):
        with contextlib.suppress(SyntaxError, ValueError):
            yield from reversed(parsed(text))


def is_made_of(name: str, statement: str) -> bool:
    """Say whether a statement reads the name that it binds: ``run = logged(run)``."""
    (node,) = ast.parse(statement).body
    value = getattr(node, "value", None)  # a def or a class has none
    inside = ast.walk(value) if value else ()
    return any(isinstance(one, ast.Name) and one.id == name for one in inside)


def _bound_at_top(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return bound_by(node)
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return set().union(*map(bound_by, ast.walk(node)))
    return set()
