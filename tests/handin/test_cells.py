"""Exercises are found in a student's cells: magics, copies, and files made to take long."""

from __future__ import annotations

import gc
import time
from types import SimpleNamespace

import pytest

from course_lib.handin.cells import BrokenCell, load, program
from course_lib.handin.course_file import CodeCell, code_cells, python_of

ECHO = "def echo(x):\n    return x.copy()\n"
BLANK = 'def echo(x):\n    # your code here\n    raise NotImplementedError("not attempted")\n'
SPEC = SimpleNamespace(slug="ex-0-1", function="echo")


def cells(*sources: str | tuple[str, str]) -> list[CodeCell]:
    return [CodeCell(*s) if isinstance(s, tuple) else CodeCell("", s) for s in sources]


@pytest.mark.parametrize(
    "magic", ["%%time", "%%capture out --no-stderr", "\n\n%%time", "%%capture\n%%time", "%%prun"]
)
def test_a_cell_magic_leaves_the_python_below_it(magic):
    source = f"{magic}\n{ECHO}"
    found = program(cells(("ex-0-1", source)), SPEC)
    assert found.strip() == ECHO.strip()
    assert found.split("\n").index("def echo(x):") == source.split("\n").index("def echo(x):")
    assert load(cells(("ex-0-1", source)), SPEC)


def test_line_magics_below_a_cell_magic_are_translated_too():
    assert "get_ipython" in python_of("%%time\n%matplotlib inline\nx = 1\n")


@pytest.mark.parametrize("magic", ["%%bash", "%%writefile echo.py", "%%python", "%%html"])
def test_a_cell_that_is_not_run_as_python_here_stays_out(magic):
    found = program(cells("import os", f"{magic}\nos = 1\n", "def echo(x):\n    return os\n"), SPEC)
    assert "os = 1" not in found
    assert magic not in found


@pytest.mark.parametrize("order", [(ECHO, BLANK), (BLANK, ECHO)])
@pytest.mark.parametrize("ids", [("ex-0-1", "ex-0-1"), ("ex-0-1", "copy"), ("copy", "ex-0-1")])
def test_what_is_not_the_blank_counts(order, ids):
    """Also if the solution stands in a new cell and the blank kept the exercise's id."""
    found = program(cells(*zip(ids, order, strict=True)), SPEC)
    assert found.strip() == ECHO.strip()


def test_a_blank_helper_does_not_replace_the_one_that_was_written():
    use = "def echo(x):\n    return help(x)\n"
    written, blank = (text.replace("echo", "help") for text in (ECHO, BLANK))
    assert "not attempted" not in program(cells(written, use, blank), SPEC)


def test_the_blank_alone_is_still_the_blank():
    assert "not attempted" in program(cells(("ex-0-1", BLANK)), SPEC)


def test_the_stub_in_a_comment_is_no_blank():
    comment = '    # raise NotImplementedError("not attempted")\n'
    kept = ECHO.replace("    return", f"{comment}    return")
    found = program(cells(("ex-0-1", kept), ("ex-0-1", BLANK)), SPEC)
    assert "return x.copy()" in found
    assert "\n    raise" not in found


def test_the_last_of_two_attempts_counts():
    first = ECHO.replace("x.copy()", "x")
    for ids in (("ex-0-1", "ex-0-1"), ("", "")):
        function = load(cells(*zip(ids, (first, ECHO), strict=True)), SPEC)
        assert function([1]) == [1]
        assert function(given := [1]) is not given


def test_a_cell_that_no_parser_reads_costs_only_itself():
    deep = "x = " + "-" * 20_000 + "1"
    assert program(cells(deep, ECHO), SPEC).strip() == ECHO.strip()
    with pytest.raises(BrokenCell):
        program(cells(("ex-0-1", f"{ECHO}\n{deep}")), SPEC)


@pytest.mark.parametrize("newline", ["\r", "\r\n"])
def test_line_ends_of_other_systems_are_cut_in_the_right_places(newline):
    text = f"import os\n\n{ECHO}\nx = 1\n".replace("\n", newline)
    assert program(cells(text), SPEC).strip() == ECHO.strip()


def test_no_statement_is_lost_where_line_ends_are_mixed():
    """Statements that share a line are taken once; what only seems to stand there is not."""
    found = program(
        cells("a = 1\rb = 2\rc = 3\r", "d = 4", "def echo(x):\n    return c + d\n"), SPEC
    )
    names: dict = {}
    exec(found, names)
    assert names["echo"](0) == 7


def test_many_statements_and_long_chains_cost_linear_time():
    """8 times the statements cost about 8 times the time, not 64 times."""

    def seconds(n: int) -> float:
        chain = "".join(f"x{i} = x{i - 1}\n" for i in range(1, n))
        source = cells(f"x0 = 1\n{chain}def echo(x):\n    return x{n - 1}\n")
        before = time.process_time()
        assert len(program(source, SPEC).split("\n")) > n
        return time.process_time() - before

    gc.disable()  # it would look through all that other tests have made
    try:
        assert min(seconds(8000) for _ in range(3)) < 24 * min(seconds(1000) for _ in range(3))
    finally:
        gc.enable()


def test_a_line_of_many_statements_is_taken_once():
    line = "; ".join(["x0 = 1", *(f"x{i} = x{i - 1}" for i in range(1, 2000))])
    text = f"{line}\ndef echo(x):\n    return x1999\n"
    assert program(cells(text), SPEC) == text


def test_a_file_is_parsed_once_for_all_its_exercises(monkeypatch):
    from course_lib.handin import cells as collect

    parsed = []
    monkeypatch.setattr(collect, "python_of", lambda text: parsed.append(text) or text)
    source = cells("".join(f"def f{i}(x):\n    return x\n" for i in range(30)))
    for i in range(30):
        program(source, SimpleNamespace(slug=f"ex-{i}", function=f"f{i}"))
    assert len(parsed) == 1


TYPED = """\
from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from numpy.typing import NDArray
def echo(x: NDArray) -> NDArray:
    return x.copy()
"""


@pytest.mark.parametrize("above", ["", '"""Echo."""\n', "# a title\n\n"])
def test_annotations_that_are_never_evaluated_stay_so(above):
    function = load(cells("# set up\n", above + TYPED), SPEC)
    assert function.__annotations__ == {"x": "NDArray", "return": "NDArray"}


@pytest.mark.parametrize("name", ["a.py", "a.ipynb"])
def test_the_mark_of_a_windows_editor_is_no_part_of_the_text(tmp_path, name):
    text = "x = 1\n" if name == "a.py" else '{"cells": []}'
    (tmp_path / name).write_text(text, encoding="utf-8-sig")
    assert code_cells(tmp_path / name) == ([CodeCell("", text)] if name == "a.py" else [])
