"""A record is of today's kernels, or somebody has said why it still holds."""

from __future__ import annotations

import json
import runpy
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "course_lib" / "accounting" / "measurements"
NAMES = sorted(file.stem for file in RECORDS.glob("h100_*.json"))
OLDER = tomllib.loads(Path(__file__).with_name("older_records.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def bench():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        yield runpy.run_path(str(ROOT / "benchmarks" / "_bench.py"))
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


@pytest.mark.parametrize("name", NAMES)
def test_a_record_is_of_todays_kernels_or_it_is_said_why_it_holds(name, bench):
    record = json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))
    seen = record.get("kernels")
    changed = [module for module in seen or () if seen[module] != now(bench, module)]
    if seen is None or changed:
        assert name in OLDER, f"{name} is older than {', '.join(changed) or 'what it saw'}"
        assert seen is None or sorted(changed) == sorted(OLDER[name]["changed"])
    else:
        assert name not in OLDER, f"{name} is of today's kernels: take it off the list"


def now(bench, module: str) -> str:
    file = bench["KERNELS"].get(module)
    return bench["fingerprint"](file) if file else "gone"


def test_the_list_names_records_and_reasons():
    assert set(OLDER) <= set(NAMES)
    assert all(len(entry["why"]) > 20 for entry in OLDER.values())


def test_a_fingerprint_is_of_code_and_not_of_words(bench, tmp_path):
    def of(text: str) -> str:
        (tmp_path / "kernel.py").write_text(text, encoding="utf-8")
        return bench["fingerprint"](tmp_path / "kernel.py")

    code = '"""A kernel."""\n\ndef f(x):\n    """Double."""\n    return x * 2\n'
    assert of(code) == of(code.replace("Double", "Twice").replace("x * 2\n", "x * 2  # why\n"))
    assert of(code) != of(code.replace("2", "3"))
