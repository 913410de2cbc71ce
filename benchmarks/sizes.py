"""How large the rooms are: `make sizes` prints files, lines and lines of code for each.

Lines of code are those that hold more than a comment or a docstring. The model is tinygrad's sz.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COURSE = ROOT / "course_lib"
NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip


def room_of(file: Path) -> str:
    """Return where a file of the course stands: `attention/`, or the top."""
    parts = file.relative_to(COURSE).parts
    return f"{parts[0]}/" if len(parts) > 1 else "(top)"


def code_lines(text: str) -> int:
    """Return how many lines of a Python program hold code."""
    docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def sizes() -> dict[str, Counter[str]]:
    """Return room -> files, lines and code lines of its Python, and lines of its JavaScript."""
    rooms: dict[str, Counter[str]] = {}
    for file in sorted(COURSE.rglob("*")):
        if file.suffix not in {".py", ".js"}:
            continue
        text, room = file.read_text(encoding="utf-8"), rooms.setdefault(room_of(file), Counter())
        if file.suffix == ".py":
            room.update(files=1, lines=len(text.splitlines()), code=code_lines(text))
        else:
            room.update(js=len(text.splitlines()))
    return rooms


def main() -> None:
    rooms = sizes()
    print(f"{'course_lib':<14}{'files':>7}{'lines':>8}{'code':>8}{'js':>8}")
    for name, room in [*rooms.items(), ("all", sum(rooms.values(), Counter()))]:
        counts = (room[column] for column in ("files", "lines", "code", "js"))
        print(f"{name:<14}{next(counts):>7}{next(counts):>8}{next(counts):>8}{next(counts):>8}")


if __name__ == "__main__":
    main()
