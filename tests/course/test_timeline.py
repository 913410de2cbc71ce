"""The clocks of ``benchmarks/timeline.py`` find their places in today's kernels."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize("name", ["RUNG_4", "RUNG_8", "BACKWARD"])
def test_a_kernel_can_be_given_clocks(name, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    script = runpy.run_path(str(BENCHMARKS / "timeline.py"))
    kernel = script[name]
    module = script["with_clocks"](kernel, tmp_path)
    monkeypatch.delitem(sys.modules, module.__name__)
    assert callable(getattr(module, kernel["call"]))


def test_an_anchor_that_is_gone_is_an_error(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    script = runpy.run_path(str(BENCHMARKS / "timeline.py"))
    edits = [("a line that nobody wrote", "", 1)]
    with pytest.raises(SystemExit, match="is there 0 times, not 1"):
        script["with_clocks"]({"module": "ladder", "edits": edits}, tmp_path)
