"""The source of a function or class, and the names that it looks up outside itself."""

from __future__ import annotations
import __future__

import ast
import inspect
import linecache
import symtable
import sys
import textwrap
from collections.abc import Iterator
from types import FunctionType
from typing import Any


class NotExtractable(ValueError):
    """A name cannot be carried into a file of its own; the message says which and what to do."""


def source_of(thing: FunctionType | type) -> tuple[str, str, int]:
    """Return (source with decorators, file, line of the ``def`` or ``class``)."""
    try:
        if isinstance(thing, type):
            lines, first, file = _class_lines(thing)
        else:
            file = thing.__code__.co_filename
            lines, first = inspect.getsourcelines(thing)
    except (OSError, TypeError) as error:
        raise NotExtractable(
            f"the source of `{thing.__name__}` cannot be found: define it in a notebook cell or a "
            "file, not through exec or an interactive prompt."
        ) from error
    source = textwrap.dedent("".join(lines)).rstrip()
    try:
        node = ast.parse(source).body[0]
    except (SyntaxError, IndexError):
        node = None
    if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name != thing.__name__:
        raise NotExtractable(
            f"the source of `{thing.__name__}` has changed since it was defined: run its cell, or "
            "import its file, again."
        )
    return source, file, first + node.lineno - 1


def _class_lines(cls: type) -> tuple[list[str], int, str]:
    """Find a class's source; in a notebook through its methods' or any cell's lines."""
    if cls.__module__ != "__main__":
        lines, first = inspect.getsourcelines(cls)
        return lines, first, inspect.getsourcefile(cls) or ""
    methods = [m for m in vars(cls).values() if isinstance(m, FunctionType)]
    files = [m.__code__.co_filename for m in methods]
    for file in dict.fromkeys([*files, *reversed(list(linecache.cache))]):
        lines = linecache.getlines(file)
        for node in _parsed("".join(lines)):
            if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                return lines[first - 1 : node.end_lineno], first, file
    raise OSError(f"no cell defines {cls.__name__}")


def _parsed(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except (SyntaxError, ValueError):
        return []


def names_used(source: str, without_annotations: bool) -> list[str]:
    """Return the names that a definition looks up outside itself, in a fixed order."""
    if without_annotations:
        source = ast.unparse(_Unannotated().visit(ast.parse(source)))
    top = symtable.symtable(source, "<extract>", "exec")
    names = {s.get_name() for s in top.get_symbols() if s.is_referenced() and not s.is_assigned()}
    for table in _tables(top):
        if isinstance(table, symtable.Function):  # (of one called "top" Python 3.11 knows no local)
            names |= set(table.get_globals())
        else:
            names |= {s.get_name() for s in table.get_symbols() if s.is_global()}
    return sorted(names)


def _tables(top: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for table in top.get_children():
        yield table
        yield from _tables(table)


class _Unannotated(ast.NodeTransformer):
    """Drops annotations: under ``from __future__ import annotations`` nobody evaluates them."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.returns = None
        self.generic_visit(node)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        node.annotation = ast.copy_location(ast.Constant(None), node.annotation)
        return node


def attribute_chains(source: str, name: str) -> list[list[str]]:
    """Return the attribute chains that start at ``name``: ``a.b.c`` gives ["b", "c"]."""
    chains = []
    for node in ast.walk(ast.parse(source)):
        chain: list[str] = []
        while isinstance(node, ast.Attribute):
            chain.insert(0, node.attr)
            node = node.value
        if chain and isinstance(node, ast.Name) and node.id == name:
            chains.append(chain)
    return chains


def postpones_annotations(thing: FunctionType | type) -> bool:
    """Say whether it was written under ``from __future__ import annotations``."""
    if isinstance(thing, type):  # a dataclass has no method of its own to ask
        module = sys.modules.get(thing.__module__)
        if getattr(module, "annotations", None) is __future__.annotations:
            return True
    functions = [thing] if isinstance(thing, FunctionType) else vars(thing).values()
    flag = __future__.annotations.compiler_flag
    return any(isinstance(f, FunctionType) and f.__code__.co_flags & flag for f in functions)


def globals_of(thing: FunctionType | type) -> dict[str, Any]:
    """Return the globals of a definition, its closure over them."""
    if isinstance(thing, type):
        functions = [f for f in vars(thing).values() if isinstance(f, FunctionType)]
        names = dict(vars(sys.modules[thing.__module__]))
        for function in functions:
            names |= closure(function)
        return names
    return thing.__globals__ | closure(thing)


def closure(function: FunctionType) -> dict[str, Any]:
    """Return the names of enclosing functions that a function uses, and their values."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    values = {}
    for name, cell in cells:
        try:
            values[name] = cell.cell_contents
        except ValueError:
            continue  # not assigned yet: reported as missing if it is used
    return values
