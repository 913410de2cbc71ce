"""The course command: what it prints, what it changes, and how it says no."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import ROOT
from small_course import SPECS, solve

from course_lib import store
from course_lib.authoring.compact import compact
from course_lib.authoring.export import exported
from course_lib.cli import main
from course_lib.handin.cells import load
from course_lib.handin.course_file import CodeCell
from course_lib.judging.spec import Exercise


def test_list_shows_every_exercise_aligned_with_its_status(course, capsys):
    store.record_attempt("3.1", "passed")
    store.record_attempt("3.2", "incorrect")
    assert main(["list"]) == 0
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["id", "function", "min", "points", "title", "status"]
    assert first.startswith("3.1  twice(x) ")
    assert first.endswith("  passed")
    assert second.endswith("  incorrect")
    assert {line.index(word) for line, word in ((head, "title"), (first, "Multiply"))} == {
        second.index("Multiply")
    }


def test_check_of_stubs_and_of_solutions(course, capsys):
    assert main(["check", "exercises/03_small.ipynb"]) == 1
    assert capsys.readouterr().out.count("not attempted") == 2
    assert main(["check", "solutions/03_small.ipynb"]) == 0
    printed = capsys.readouterr().out
    assert printed.count(": passed") == 2
    assert "never runs" not in printed
    assert store.load()["attempts"]["3.1"]["passed"] is True


def test_one_solved_exercise_is_not_enough_unless_it_is_the_one_asked_for(course, capsys):
    solve(course, "ex-3-1", "def twice(x): return 2 * x")
    assert main(["check", "exercises/03_small.ipynb"]) == 1
    assert main(["check", "exercises/03_small.ipynb", "3.1"]) == 0
    assert main(["check", "exercises/03_small.ipynb", "four_times"]) == 1


def test_check_reads_the_exercise_cell_before_any_namesake(course, capsys):
    """A scratch copy in another cell is not what is handed in."""
    solve(course, "ex-3-1", "def twice(x): return 2 * x")
    solve(course, "use", "def twice(x): return 3 * x")
    assert main(["check", "exercises/03_small.ipynb", "3.1"]) == 0


def test_check_of_a_script_finds_functions_by_name(course, capsys):
    Path("helper_of_mine.py").write_text("FACTOR = 2\n")
    Path("mine.py").write_text(
        "from helper_of_mine import FACTOR\n\n\ndef twice(x):\n    return FACTOR * x\n\n"
        "raise SystemExit('the rest of the script is not run')\n"
    )
    assert main(["check", "mine.py"]) == 0
    assert "3.1 twice: passed" in capsys.readouterr().out


def test_a_file_named_like_a_library_stands_in_nobodys_way(course, capsys):
    Path("colorsys.py").write_text("raise RuntimeError('not the one that was meant')\n")
    Path("mine.py").write_text(
        "from colorsys import rgb_to_hsv\n\n\ndef twice(x):\n    return (rgb_to_hsv and 2) * x\n"
    )
    assert main(["check", "mine.py"]) == 0, capsys.readouterr().out


def test_local_variables_do_not_pull_in_globals_of_the_same_name(course):
    """`x` is a parameter; the notebook's own `x = twice(...)` must not run for it."""
    Path("mine.py").write_text("x = 1 / 0\ndef twice(x):\n    return 2 * x\n")
    assert main(["check", "mine.py"]) == 0


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def twice(x) return x", "SyntaxError"),
        ("def twice(x): return y", "NameError"),
        ("def twice(x): return 3 * x", "3.1 twice: incorrect"),
        ("def double(x): return 2 * x", "No function named twice"),
        ("twice = 3", "3.1 twice: error"),
        ("raise SystemExit(3)\ntwice = None", "3.1 twice: error"),
        ("twice = open('/no/such/file')", "FileNotFoundError"),
        ("%matplotlib inline\ndef twice(x): return 2 * x", "3.1 twice: passed"),
    ],
)
def test_check_reports_and_never_breaks(course, capsys, source, says):
    solve(course, "ex-3-1", source)
    status = main(["check", "exercises/03_small.ipynb", "3.1"])
    printed = capsys.readouterr()
    assert says in printed.out
    assert printed.err == ""
    assert status == (0 if "passed" in says else 1)


def test_old_notebooks_without_cell_ids_are_searched_by_name(course):
    path = course / "solutions" / "03_small.ipynb"
    raw = json.loads(path.read_text(encoding="utf-8"))
    for cell in raw["cells"]:
        del cell["id"]
    path.write_text(json.dumps(raw | {"nbformat_minor": 4}), encoding="utf-8")
    raw["cells"] = [c for c in raw["cells"] if "check(" not in "".join(c["source"])]
    assert main(["check", str(path)]) == 0


def test_hint_and_progress(course, capsys):
    assert main(["hint", "3.1"]) == 0
    assert main(["hint", "twice"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert (first.endswith("first"), second.endswith("second")) == (True, True)
    assert main(["progress"]) == 0


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_catch_up_changes_one_cell_and_no_other_byte(course, capsys, newline):
    mine = 'def twice(x):\n    return "«mine»"'
    solve(course, "ex-3-1", mine)
    path = course / "exercises" / "03_small.ipynb"
    before = path.read_text(encoding="utf-8").replace("\n", newline).encode()
    path.write_bytes(before)
    assert main(["catch-up", "3.2"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    after = path.read_bytes()
    start = next(i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b)
    same_end = next(
        i for i, (a, b) in enumerate(zip(before[::-1], after[::-1], strict=False)) if a != b
    )
    assert b"mine" in before[start - 60 : len(before) - same_end]
    assert b'"ex-3-2"' not in after[start : len(after) - same_end]
    old, new = json.loads(before), json.loads(after)
    changed = [a["id"] for a, b in zip(old["cells"], new["cells"], strict=True) if a != b]
    assert changed == ["ex-3-1"]
    (cell,) = (c for c in new["cells"] if c["id"] == "ex-3-1")
    assert "return x + x + OFFSET" in "".join(cell["source"])
    assert "SOLUTION" not in "".join(cell["source"])
    assert main(["check", str(path), "3.1"]) == 0
    assert store.load()["kept"][0]["source"] == mine
    assert (course / "exercises" / "my_twice_before_catch_up.py").read_text() == mine + "\n"


def test_catch_up_twice_keeps_the_first_copy(course, capsys):
    assert main(["catch-up", "3.2"]) == 0
    kept = (course / "exercises" / "my_twice_before_catch_up.py").read_text()
    assert main(["catch-up", "3.2"]) == 0
    assert "in place already" in capsys.readouterr().out
    solve(course, "ex-3-1", "twice = None")
    assert main(["catch-up", "3.2"]) == 0
    assert (course / "exercises" / "my_twice_before_catch_up.py").read_text() == kept
    assert "None" in (course / "exercises" / "my_twice_before_catch_up_2.py").read_text()


def test_build_and_build_check(course, capsys):
    assert main(["build", "--check"]) == 0
    (course / "solutions" / "03_small.ipynb").write_text("{}")
    assert main(["build", "--check"]) == 1
    printed = capsys.readouterr().out
    assert "solutions/03_small.ipynb differs" in printed
    assert "course build" in printed
    assert main(["build"]) == 0
    assert capsys.readouterr().out == "solutions/03_small.ipynb\n"
    assert main(["build", "--check"]) == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["check", "nowhere.ipynb"], "there is no such file"),
        (["check", "sources"], "a notebook (.ipynb) or a script (.py)"),
        (["check", "broken.ipynb"], "no Jupyter notebook"),
        (["check", "empty_cell.ipynb"], "no Jupyter notebook"),
        (["check", "empty.py"], "nothing in it is an exercise"),
        (["check", "exercises/03_small.ipynb", "9.9"], "No exercise is called '9.9'"),
        (["check", "latin.py"], "cannot be read"),
        (["hint", "9.9"], "No exercise is called '9.9'"),
        (["catch-up", "3.1"], "no step comes before it"),
        (["catch-up", "9.9"], "No exercise is called '9.9'"),
        (["export", "3.1"], "no complete attention"),
        (["export", "9.9"], "No exercise is called '9.9'"),
        (["solution", "3.1"], "3.1 has not passed yet: course hint 3.1 helps"),
        (["solution", "9.9"], "No exercise is called '9.9'"),
        (["reset", "9.9"], "No exercise is called '9.9'"),
        (["reset", "42"], "There is no lesson 42 with exercises"),
        (["watch", "nowhere.ipynb"], "there is no such file"),
        (["watch", "empty.py"], "nothing in it is an exercise"),
        (["watch", "broken.ipynb"], "no Jupyter notebook"),
        (["open", "42"], "There is no lesson 42; there are 03."),
        (["open", "9.9"], "No exercise is called '9.9'"),
    ],
)
def test_every_bad_request_gets_one_sentence_and_status_2(course, capsys, arguments, says):
    Path("broken.ipynb").write_text('{"cells": [')
    Path("empty_cell.ipynb").write_text('{"cells": [{"cell_type": "code", "source": null}]}')
    Path("empty.py").write_text("x = 1\n")
    Path("latin.py").write_bytes(b"x = '\xe9'")
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert says in printed.err
    assert len(printed.err.splitlines()) == 1
    assert printed.out == ""


def test_catch_up_says_when_the_cell_is_gone(course, capsys):
    path = course / "exercises" / "03_small.ipynb"
    path.write_text(path.read_text(encoding="utf-8").replace('"ex-3-1"', '"gone"'))
    before = path.read_bytes()
    assert main(["catch-up", "3.2"]) == 2
    assert "no cell 'ex-3-1'" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_no_sources_here(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["build"]) == 2
    assert "no folder sources/" in capsys.readouterr().err


def test_the_installed_command_prints_its_help():
    command = Path(sys.executable).parent / "course"
    done = subprocess.run([command, "--help"], capture_output=True, text=True, check=True)
    for name in ("doctor", "list", "build", "check", "hint", "progress", "catch-up", "export"):
        assert name in done.stdout


# What a finished 7.4 looks like to `course export`; wrong mathematics, right shape.
LAUNCHER = """\
import torch
import triton
import triton.language as tl

SHIFT = tl.constexpr(1)

@triton.jit
def helper(x):
    # a comment of mine
    return x + SHIFT

@triton.jit
def kernel(
    q, o, n,
    BLOCK: tl.constexpr,
):
    \"\"\"Copy.\"\"\"
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + rows, helper(tl.load(q + rows, mask=rows < n)), mask=rows < n)

def my_flash_attention(q, k, v, *, causal=False, block_q=64, block_k=64):
    o = torch.empty_like(q)
    kernel[(triton.cdiv(q.numel(), block_q),)](q, o, q.numel(), BLOCK=block_q)
    return o, o.sum(-1)
"""
FLASH = Exercise(
    **{
        **{name: getattr(SPECS[0], name) for name in Exercise.__dataclass_fields__},
        "id": "7.4",
        "function": "my_flash_attention",
        "signature": "(q, k, v, *, causal=False, block_q=64, block_k=64)",
        "kind": "kernel",
    }
)


def run_alone(file: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run an exported file where no GPU is seen and nothing of the course's environment is set."""
    return subprocess.run(
        [sys.executable, file, *arguments],
        capture_output=True,
        text=True,
        cwd=file.parent,
        env={"PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": "", "HOME": str(file.parent)},
    )


@pytest.fixture
def run_here(monkeypatch, capsys) -> Callable[..., tuple[object, str]]:
    """Run here, where torch is imported, what `run_alone` has run once: (exit status, output)."""

    def run_here(file: Path, *arguments: str) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", [str(file), *arguments])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(file), run_name="__main__")
        return ended.value.code, capsys.readouterr().out

    return run_here


def test_export_stands_alone_and_says_so_without_a_gpu(tmp_path, run_here):
    text = exported(FLASH, load([CodeCell("", LAUNCHER)], FLASH))
    file = tmp_path / "mine.py"
    file.write_text(text)
    imports = re.findall(r"^\s*(?:import|from) (\w+)", text, re.MULTILINE)
    assert set(imports) == {"os", "torch", "triton"}
    done = run_alone(file)
    assert done.returncode == 1
    assert done.stderr == "This needs a CUDA GPU; torch finds none.\n"
    status, said = run_here(file, "--help")
    assert status is None
    assert "--check: right or wrong" in said


def test_compact_keeps_the_program():
    """Layout goes, meaning stays; where it would not, nothing is touched."""
    source = LAUNCHER + 'def f():\n    """Doc."""\n\n    # why\n    return (1,  # one\n  2)\n'
    tight = compact(source)
    assert len(tight.splitlines()) < len(source.splitlines())
    assert "def kernel(q, o, n, BLOCK: tl.constexpr):" in tight
    assert "# one" in tight
    assert "# why" not in tight
    scope: dict = {}
    exec(tight[tight.index("def f") :], scope)
    assert scope["f"]() == (1, 2)
    tricky = 'text = """\n# no comment\n\n"""\ndef g():\n    # why\n    return text'
    assert compact(tricky) == tricky


def test_export_refuses_stubs_and_foreign_imports(tmp_path, monkeypatch, given, capsys):
    given(FLASH)
    monkeypatch.chdir(tmp_path)
    stub = LAUNCHER.replace(
        "    o = torch", '    raise NotImplementedError("not attempted")\n    o = torch'
    )
    Path("stub.py").write_text(stub)
    Path("foreign.py").write_text(
        "import numpy as np\n" + LAUNCHER.replace("o.sum(-1)", "np.sum(o)")
    )
    Path("nothing.py").write_text("x = 1\n")
    for name, says in (("stub", "not attempted yet"), ("foreign", "numpy"), ("nothing", "has no")):
        assert main(["export", "7.4", "--from", f"{name}.py"]) == 2
        assert says in capsys.readouterr().err
    assert not Path("my_flash_attention.py").exists()


def test_export_does_not_overwrite(tmp_path, monkeypatch, given, capsys):
    given(FLASH)
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(LAUNCHER)
    Path("out.py").write_text("precious")
    assert main(["export", "7.4", "--from", "mine.py", "-o", "out.py"]) == 2
    assert Path("out.py").read_text() == "precious"
    assert main(["export", "7.4", "--from", "mine.py", "-o", "out.py", "--force"]) == 0
    assert "def kernel" in Path("out.py").read_text()


SOLUTION_07 = ROOT / "solutions" / "07_flash_attention_in_triton.ipynb"


def test_the_reference_solution_of_7_4_is_short_and_checks_itself_without_a_gpu(tmp_path, run_here):
    """The kernel and its launcher have at most 66 lines, what checks and times them 30."""
    out = tmp_path / "exported.py"
    assert main(["export", "7.4", "--from", str(SOLUTION_07), "-o", str(out)]) == 0
    text = out.read_text()
    kernel, main_of_it = text.split('if __name__ == "__main__":\n')
    assert len(kernel[kernel.index("import torch") :].splitlines()) <= 66
    assert len(text.splitlines()) <= 96
    assert all(len(line) <= 100 for line in main_of_it.splitlines())
    assert "course_lib" not in text
    assert "SOLUTION" not in text
    done = run_alone(out, "--check")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count(": right") == 4
    wrong = tmp_path / "wrong.py"
    wrong.write_text(text.replace("acc = acc * alpha[:, None]", "pass"))
    status, said = run_here(wrong, "--check")
    assert status == 1
    assert "n=129 causal=False: WRONG" in said


def test_an_exported_class_is_timed_by_what_it_applies(tmp_path):
    """9.6 is no launcher: its file calls `apply`, which returns o alone."""
    out = tmp_path / "exported.py"
    source = ROOT / "solutions" / "09_backward.ipynb"
    assert main(["export", "9.6", "--from", str(source), "-o", str(out)]) == 0
    timed = next(line for line in out.read_text().splitlines() if "mine, sdpa = " in line)
    sdpa = SimpleNamespace(scaled_dot_product_attention=None)
    names: dict = {"torch": SimpleNamespace(nn=SimpleNamespace(functional=sdpa))}
    names["Attention"] = SimpleNamespace(apply=lambda *given: given)
    exec(timed.strip(), names)
    assert names["mine"](1, 2, 3, causal=True)[0] == (1, 2, 3, True)


@pytest.mark.gpu
def test_the_exported_reference_is_right_and_timed_on_this_gpu(tmp_path):
    out = tmp_path / "exported.py"
    assert main(["export", "7.4", "--from", str(SOLUTION_07), "-o", str(out)]) == 0
    done = subprocess.run([sys.executable, out], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    assert done.stdout.count("right") == 4
    assert "WRONG" not in done.stdout
