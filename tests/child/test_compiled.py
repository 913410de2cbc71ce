"""Where there is no compiler a record answers; what has none says so (its cells: tests/laptop)."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys

import pytest
from conftest import ROOT

from course_lib.accounting.measurements import load_measurements
from course_lib.child import compiled
from course_lib.child.compile_check import compile_for
from course_lib.child.xray import xray_launch

pytest.importorskip("triton")

from helpers import solutions


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return runpy.run_path(str(ROOT / "benchmarks" / "compiled_lessons.py"))


@pytest.fixture
def no_compiler(monkeypatch):
    monkeypatch.setattr(compiled, "interpreter_only", lambda: True)
    monkeypatch.setattr(compiled, "run", None)


def test_no_cell_that_compiles_is_forgotten(benchmark):
    from course_lib.authoring.percent import read_cells

    for file in (ROOT / "sources").glob("*/lesson.py"):
        known = benchmark["CELLS"].get(file.parent.name, "").split()
        code = {cell.slug: cell.source for cell in read_cells(file) if cell.kind == "code"}
        asks = {slug for slug in code if re.search(r"\b(xray_launch|compile_for)\(", code[slug])}
        assert asks <= set(known), file


def test_what_has_no_record_says_so_in_a_sentence(no_compiler):
    import torch

    x = torch.zeros(64)
    says = "no Triton compiler on this system.* Nothing is recorded of `vector_add`; on Linux"
    report = compile_for(solutions(5).vector_add, x, x)
    assert (report.ok, report.kind) == (False, "infrastructure")
    with pytest.raises(ValueError, match=says) as told:
        xray_launch(solutions(5).vector_add, x, x)
    assert str(told.value).endswith(report.message)


@pytest.mark.slow
def test_the_record_is_what_the_compiler_says_today(tmp_path):
    script = ROOT / "benchmarks" / "compiled_lessons.py"
    subprocess.run([sys.executable, script, "--out", tmp_path], check=True, capture_output=True)
    today = json.loads((tmp_path / f"{compiled.RECORD}.json").read_text())
    assert today["rows"] == load_measurements(compiled.RECORD)["rows"]
