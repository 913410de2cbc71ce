"""No file of the course is longer than 400 lines without saying why; `make sizes` counts them."""

from __future__ import annotations

import ast
import runpy

from conftest import ROOT

COURSE = ROOT / "course_lib"
SIZES = runpy.run_path(str(ROOT / "benchmarks" / "sizes.py"))
REASON = "Longer than 400 lines because"  # stands in the docstring, and goes on with the reason


def test_a_long_file_says_why_it_is_long():
    long = {
        file.relative_to(COURSE).as_posix(): ast.get_docstring(ast.parse(text)) or ""
        for file in COURSE.rglob("*.py")
        if len((text := file.read_text(encoding="utf-8")).splitlines()) > 400
    }
    assert long, "the rule is tried on nothing"
    assert {name for name, says in long.items() if REASON not in says} == set()


def test_lines_of_code_are_neither_blank_nor_comment_nor_docstring():
    constant = 'x = """a\nb"""\n'
    function = 'def f():\n    "Doc."\n\n    return (\n        1\n    )\n'
    text = f'"""Doc.\n\nMore.\n"""\n\n# why\n{constant}\n\n{function}'
    assert SIZES["code_lines"](text) == 2 + 4


def test_every_file_is_in_some_room():
    rooms = SIZES["sizes"]()
    assert sum(room["files"] for room in rooms.values()) == len(list(COURSE.rglob("*.py")))
    assert {"attention/", "judging/", "(top)"} <= set(rooms)
