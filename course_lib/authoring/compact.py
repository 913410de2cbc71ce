"""Tighten a program without changing it: for a file that should fit on one page."""

from __future__ import annotations

import ast
import io
import textwrap
import tokenize

WIDTH = 100


def compact(source: str) -> str:
    """Return ``source`` without comment lines, docstrings and blank lines inside functions.

    Statements broken over several lines are filled to 100 columns, unless a comment or a string
    with spaces stands inside. Comments at the end of a line stay. A program that this would
    change (a string whose lines look like comments) is returned as it is.
    """
    lines: list[str | None] = list(source.split("\n"))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            first = node.body[0]
            _fill(lines, node.lineno, first.lineno - 1)
            if ast.get_docstring(node, clean=False) is not None and len(node.body) > 1:
                _drop(lines, first.lineno, first.end_lineno)
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.Expr | ast.Return):
            _fill(lines, node.lineno, node.end_lineno)
    kept = [line for line in lines if line is not None and not line.lstrip().startswith("#")]
    tight = _spaced([line for line in kept if line.strip()])
    return tight if _meaning(tight) == _meaning(source) else source.strip()


def _meaning(source: str) -> str:
    """Return the program without docstrings, layout and comments; "" if it is none."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) and len(node.body) > 1:
            del node.body[0]
    return ast.dump(tree)


def _drop(lines: list[str | None], first: int, last: int | None) -> None:
    for index in range(first - 1, last or first):
        lines[index] = None


def _fill(lines: list[str | None], first: int, last: int | None) -> None:
    """Fill the lines ``first`` to ``last`` (from 1) of one statement or one function header."""
    whole = [line for line in lines[first - 1 : last] if line is not None]
    if len(whole) < 2 or not _breakable("\n".join(whole)):
        return
    indent = whole[0][: len(whole[0]) - len(whole[0].lstrip())]
    words = " ".join(line.strip() for line in whole)
    for loose, tight in (("( ", "("), (", )", ")"), (" )", ")"), ("[ ", "["), (" ]", "]")):
        words = words.replace(loose, tight)
    text = textwrap.fill(
        words, WIDTH, initial_indent=indent, subsequent_indent=indent + 8 * " ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    lines[first - 1] = text
    _drop(lines, first + 1, last)


def _breakable(text: str) -> bool:
    """Whether no comment and no string with a space (or over several lines) stands inside."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text.strip()).readline))
    except (tokenize.TokenError, IndentationError):
        return False
    if {tokenize.tok_name[t.type] for t in tokens} & {"COMMENT", "FSTRING_START"}:
        return False
    return not any(set(" \n") & set(t.string) for t in tokens if t.type == tokenize.STRING)


def _spaced(lines: list[str]) -> str:
    """Set one blank line before each top-level definition."""
    spaced: list[str] = []
    for line in lines:
        decorated = bool(spaced) and spaced[-1].startswith("@")
        if line.startswith(("def ", "class ", "@")) and spaced and not decorated:
            spaced.append("")
        spaced.append(line)
    return "\n".join(spaced)
