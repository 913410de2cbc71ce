"""Names that are there only because Triton's interpreter put them into a kernel's globals."""

from __future__ import annotations

import ast
import builtins
import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

from course_lib.child.definition import NotExtractable, closure


def refuse_leaked(name: str, namespace: dict[str, Any], thing: Any) -> None:
    """Raise if ``name`` is only there because Triton's interpreter put it into the globals.

    Interpreting a kernel copies some 60 names (`tl`, `np`, `math` ...) into its globals, so a
    forgotten import passes here and fails on a GPU.
    """
    interpreter = sys.modules.get("triton.runtime.interpreter")
    leaked = vars(interpreter) if interpreter else {}
    if name not in leaked or leaked[name] is not namespace[name] or hasattr(builtins, name):
        return
    if not _was_written(name, namespace, thing):
        raise NotExtractable(
            f"`{thing.__name__}` uses `{name}`, which was never imported: it works here only "
            "because Triton's interpreter lends its own names, and fails on a GPU."
        )


def _was_written(name: str, namespace: dict[str, Any], thing: Any) -> bool:
    """Say whether the student's own text binds ``name`` (True where there is no text to ask)."""
    if isinstance(thing, FunctionType) and name in closure(thing):
        return True
    written = list(texts(namespace, thing))
    return not written or any(_binds(text, name) for text in written)


def texts(namespace: dict[str, Any], thing: Any) -> Iterator[str]:
    """Yield what may bind a global: the notebook's cells so far, or the file."""
    cells = namespace.get("In")
    if isinstance(cells, list) and "get_ipython" in namespace:
        yield from (cell for cell in cells if isinstance(cell, str))
        return
    file = thing.__code__.co_filename if isinstance(thing, FunctionType) else ""
    module = sys.modules.get(thing.__module__)
    if module is not None and getattr(module, "__file__", None):
        file = module.__file__ or file
    if Path(file).exists():
        yield "".join(linecache.getlines(file))


def _binds(text: str, name: str) -> bool:
    """Say whether a cell or file binds ``name`` at its top level, or may (``import *``)."""
    try:
        body = parsed(text)
    except (SyntaxError, ValueError):
        return name in text
    nodes = [node for statement in body for node in ast.walk(statement)]
    return any({name, "*"} & bound_by(node) for node in nodes)


def parsed(text: str) -> list[ast.stmt]:
    """Return the statements of a cell or file, without IPython's own lines."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("%", "!", "?"))]
    return ast.parse("\n".join(lines)).body


def bound_by(node: ast.AST) -> set[str]:
    """Return the names that a statement or target binds."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return {node.id}
    return set()
