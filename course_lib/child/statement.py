"""The statement at the top level of a student's file or notebook that binds a name."""

from __future__ import annotations

import ast
from types import FunctionType
from typing import Any

from course_lib.child.definition import closure
from course_lib.child.leaked_names import bound_by, parsed, texts


def binding_statement(
    name: str, namespace: dict[str, Any], thing: Any, *, before: str | None = None
) -> str | None:
    """Return the last assignment, ``def`` or ``class`` at top level that binds ``name``, or None.

    For what has no literal: a logger, a lambda, a cached function, an object of one's own class.
    ``before``: above this statement, which is made of what the name meant there.
    """
    if isinstance(thing, FunctionType) and name in closure(thing):
        return None
    for text in reversed(list(texts(namespace, thing))):
        try:
            body = parsed(text)
        except (SyntaxError, ValueError):
            continue
        for node in reversed(body):
            if before is not None:
                before = None if ast.unparse(node) == before else before
            elif name in _bound_at_top(node):
                return ast.unparse(node)
    return None


def _bound_at_top(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return bound_by(node)
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return set().union(*map(bound_by, ast.walk(node)))
    return set()
