"""Operators: small rules that rewrite a program's syntax tree in one place.

Most are a pair of patterns, ``"X.max(*A, **K)" -> "X.min(*A, **K)"``: a name of one capital letter
stands for any expression, the same letter for the same expression; ``*A`` and ``**K`` stand for
the arguments that are left. A pattern that is a statement is matched with statements.
"""

from __future__ import annotations

import ast
import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

from mutants.blocks import is_kernel

New = ast.AST | list[ast.stmt]  # what stands in the place of a node; statements may become several
Change = Callable[[ast.AST], Iterator[New]]


@dataclass(frozen=True)
class Operator:
    """One idea of an edit. ``change`` yields what may stand in a node's place.

    ``names``: the reports that are true of what it makes, names of known mistakes or of
    properties; they are written before the operator is first run. None: it has no label.
    """

    name: str
    kind: str  # "mechanical", "algorithmic" or "right"
    change: Change
    names: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Edit:
    """What one operator made in one place: the new program, and what it changed."""

    operator: Operator
    text: str
    old: str
    new: str

    @property
    def says(self) -> str:
        """Return the change on one line, as in "x + 1 -> x"."""
        return f"{self.old} -> {self.new}"


def pairs(name: str, *names: str, kind: str, of: tuple[tuple[str, str], ...]) -> Operator:
    """Return the operator that rewrites by any of the pairs (old pattern, new pattern)."""
    rules = [(_pattern(old), _pattern(new)) for old, new in of]
    for_any = any(isinstance(old, ast.Name) and _is_letter(old.id) for old, _ in rules)
    kinds = {type(old) for old, _ in rules}

    def change(node: ast.AST) -> Iterator[New]:
        if not for_any and type(node) not in kinds:  # so are most
            return
        for old, new in rules:
            bound: dict[str, Any] = {}
            if _matches(old, node, bound):
                yield _filled(new, bound)

    return Operator(name, kind, change, frozenset(names))


@dataclass(frozen=True)
class Site:
    """A place of a program and what an operator puts there."""

    operator: Operator
    node: ast.AST
    new: New


class Source:
    """A program whose places can be edited, one at a time."""

    def __init__(self, text: str) -> None:
        tree = _without_docstrings(ast.parse(text))
        self._parts = [ast.unparse(part) for part in tree.body]
        self._tree = ast.parse(self.text)  # once more: its nodes know the lines of `text`
        # node -> its parent, the field there, and which part of the program it is in
        self._home: dict[ast.AST, tuple[ast.AST, str, int]] = {}
        for i, part in enumerate(self._tree.body):
            self._home[part] = (self._tree, "body", i)
            for parent in ast.walk(part):
                for field, value in ast.iter_fields(parent):
                    for child in value if isinstance(value, list) else [value]:
                        if isinstance(child, ast.AST) and not _is_default(parent, field):
                            self._home[child] = (parent, field, i)

        for function in self._tree.body:
            _tell_names(function)
        named = {n.id for n in ast.walk(self._tree) if isinstance(n, ast.Name)}
        # what never runs: kernels that nobody calls, such as a helper that an edit of the corpus
        # replaced, and what only a type checker reads
        self._idle = {
            i
            for i, one in enumerate(self._tree.body)
            if (is_kernel(one) and one.name not in named)
            or (isinstance(one, ast.If) and ast.unparse(one.test).endswith("TYPE_CHECKING"))
        }
        self.nodes: list[ast.AST] = [  # that an operator is asked about; the whole is one too
            node
            for node, (_, _, i) in self._home.items()
            if i not in self._idle and not isinstance(node, ast.expr_context | ast.operator)
        ]
        self.nodes.append(self._tree)

    def sites(self, operator: Operator) -> list[Site]:
        """Return every place in which an operator has something to do."""
        return [Site(operator, node, new) for node in self.nodes for new in operator.change(node)]

    def lines(self, node: ast.AST) -> range:
        """Return the numbers of those lines of `text` that an edit in a node's place changes."""
        if node is self._tree:
            return range(1, 1 + len(self.text.splitlines()))
        while not hasattr(node, "lineno"):  # a function's parameters, say
            node = self._home[node][0]
        first = min(one.lineno for one in [node, *getattr(node, "decorator_list", [])])
        return range(first, 1 + node.end_lineno)  # type: ignore[attr-defined]

    @property
    def text(self) -> str:
        """Return the program as `edit` writes it, with nothing changed."""
        return "\n\n".join(self._parts) + "\n"

    def edit(self, site: Site) -> Edit | None:
        """Return the program with one edit, None if that is no program or the same."""
        news = site.new if isinstance(site.new, list) else [site.new]
        for new in news:  # `ast.unparse` asks statements for their line
            ast.fix_missing_locations(new)
        if site.node is self._tree:
            return self._edited(site, ast.unparse(site.new) + "\n")
        parent, field, i = self._home[site.node]
        before = getattr(parent, field)
        after: Any = site.new
        if isinstance(before, list):
            at = next(k for k, one in enumerate(before) if one is site.node)
            after = [*before[:at], *news, *before[at + 1 :]]
            if field == "body" and not after:
                after = [ast.Pass()]
        try:
            setattr(parent, field, after)
            whole = self._tree.body if parent is self._tree else self._tree.body[i : i + 1]
            texts = list(map(ast.unparse, whole))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                compile("\n".join(texts), "mutant", "exec")
        except (SyntaxError, TypeError, ValueError, AttributeError):
            return None
        finally:
            setattr(parent, field, before)
        parts = texts if parent is self._tree else [*self._parts[:i], *texts, *self._parts[i + 1 :]]
        return self._edited(site, "\n\n".join(parts) + "\n")

    def _edited(self, site: Site, text: str) -> Edit | None:
        went, came = _difference(self.text, text)
        return Edit(site.operator, text, went, came) if went or came else None


def _tell_names(function: ast.stmt) -> None:
    """Let every name in a function know those beside it: parameters, and longer ones."""
    found = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
    names = {n.id for n in found if len(n.id) > 1}
    names |= {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)}
    for name in found:
        name.beside = sorted(names)  # type: ignore[attr-defined]


def names_beside(name: ast.Name) -> list[str]:
    """Return the names that the function uses in which a name of a `Source` stands."""
    return getattr(name, "beside", [])


def edits(operator: Operator, text: str) -> list[Edit]:
    """Return every edit of a program by one operator, each in one place."""
    source = Source(text)
    return [edit for site in source.sites(operator) if (edit := source.edit(site))]


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in [tree, *ast.walk(tree)]:
        if isinstance(node, ast.Module | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def _is_default(parent: ast.AST, field: str) -> bool:
    """Return whether this is a parameter's default: every check gives its own value."""
    return isinstance(parent, ast.arguments) and field in ("defaults", "kw_defaults")


def _difference(before: str, after: str) -> tuple[str, str]:
    """Return the lines that went and those that came, each on one line."""
    old, new = before.splitlines(), after.splitlines()
    head = next((k for k, (a, b) in enumerate(zip(old, new)) if a != b), min(len(old), len(new)))
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    lines = unified_diff(old[head : len(old) - tail], new[head : len(new) - tail], n=0, lineterm="")
    changed = [line for line in lines if line[:3] not in ("---", "+++", "@@ ")]
    went, came = ([line[1:].strip() for line in changed if line[:1] == sign] for sign in "-+")
    return " / ".join(went)[:300], " / ".join(came)[:300]


# Patterns ---------------------------------------------------------------------------------------


def _pattern(text: str) -> Any:
    """Return the tree of a pattern: of an expression, or of a statement (a list if there are
    several, or none)."""
    body = ast.parse(text).body
    if len(body) == 1:
        return body[0].value if isinstance(body[0], ast.Expr) else body[0]
    return body


def _is_letter(name: Any) -> bool:
    return isinstance(name, str) and len(name) == 1 and name.isupper()


def _matches(old: Any, node: Any, bound: dict[str, Any]) -> bool:
    if isinstance(old, ast.Name) and _is_letter(old.id):
        return isinstance(node, ast.expr) and _binds(bound, old.id, node)
    if isinstance(old, ast.Call):
        return isinstance(node, ast.Call) and _matches_call(old, node, bound)
    if isinstance(old, ast.AST):
        return type(old) is type(node) and all(
            _matches(value, getattr(node, field), bound)
            for field, value in ast.iter_fields(old)
            if field not in ("ctx", "kind", "type_comment")
        )
    if isinstance(old, list):
        return (
            isinstance(node, list)
            and len(old) == len(node)
            and all(_matches(a, b, bound) for a, b in zip(old, node, strict=True))
        )
    return bool(type(old) is type(node) and old == node)


def _matches_call(old: ast.Call, node: ast.Call, bound: dict[str, Any]) -> bool:
    if not _matches(old.func, node.func, bound):
        return False
    positional, named = list(node.args), {k.arg: k.value for k in node.keywords}
    for one in old.args:
        if isinstance(one, ast.Starred):
            bound[one.value.id], positional = positional, []  # type: ignore[attr-defined]
        elif not positional or not _matches(one, positional.pop(0), bound):
            return False
    for one in old.keywords:
        if one.arg is None:
            bound[one.value.id], named = named, {}  # type: ignore[attr-defined]
        elif one.arg not in named or not _matches(one.value, named.pop(one.arg), bound):
            return False
    return not positional and not named


def _binds(bound: dict[str, Any], letter: str, node: ast.expr) -> bool:
    before = bound.setdefault(letter, node)
    return before is node or ast.dump(_read(before)) == ast.dump(_read(node))


def _read(node: Any) -> Any:
    """Return an expression as it is where it is read, wherever it stood."""
    node = copy.deepcopy(node)
    for part in ast.walk(node):
        if hasattr(part, "ctx"):
            part.ctx = ast.Load()
    return node


def _filled(new: Any, bound: dict[str, Any]) -> Any:
    if isinstance(new, list):
        return [_filled(one, bound) for one in new]
    new = copy.deepcopy(new)
    filled = _Fill(bound).visit(new)
    return filled


class _Fill(ast.NodeTransformer):
    def __init__(self, bound: dict[str, Any]) -> None:
        self.bound = bound

    def visit_Name(self, node: ast.Name) -> Any:
        if not _is_letter(node.id) or node.id not in self.bound:
            return node
        filled = _read(self.bound[node.id])
        if isinstance(node.ctx, ast.Store):
            _store(filled)
        return filled

    def visit_Call(self, node: ast.Call) -> Any:
        args: list[ast.expr] = []
        for one in node.args:
            rest = isinstance(one, ast.Starred) and getattr(one.value, "id", "") in self.bound
            args += self.bound[one.value.id] if rest else [self.visit(one)]  # type: ignore
        keywords: list[ast.keyword] = []
        for k in node.keywords:
            if k.arg is None and getattr(k.value, "id", "") in self.bound:
                rest = self.bound[k.value.id]  # type: ignore[attr-defined]
                keywords += [ast.keyword(arg, value) for arg, value in rest.items()]
            else:
                keywords.append(ast.keyword(k.arg, self.visit(k.value)))
        return ast.Call(self.visit(node.func), args, keywords)


def _store(node: ast.expr) -> None:
    node.ctx = ast.Store()  # type: ignore[attr-defined]
    for part in getattr(node, "elts", []):
        _store(part)
