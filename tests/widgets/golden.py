"""Hold a widget's module against Python: run its exported functions in node on a golden table."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest


def compare_in_node(widget: type, cases: list[dict[str, Any]], folder: Path) -> int:
    """Return how many numbers were compared; fail where one differs, skip where node is missing.

    A case is ``{"call": name, "args": [...], "want": value}``.
    """
    node = shutil.which("node")
    if node is None:
        pytest.skip("NODE IS MISSING: the JavaScript copies of Python's formulas were not compared")
    module, table = folder / "module.mjs", folder / "golden.json"
    module.write_text(str(widget._esm), encoding="utf-8")
    table.write_text(json.dumps(cases), encoding="utf-8")
    script = Path(__file__).with_name("golden.mjs")
    run = subprocess.run([node, script, module, table], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return int(run.stdout)
