"""Load solved exercises, and the blanks a student starts from, as modules inspect can read."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType

from course_lib.authoring.percent import Cell, read_cells
from course_lib.authoring.regions import blank

ROOT = Path(__file__).parents[2]
_FINAL_CALLS = re.compile(r"^(progress|hint|check)\(.*\)$", re.MULTILINE)


def code(lesson: int, text: Callable[[Path, Cell], str] = lambda file, cell: cell.source) -> str:
    """Return the code of a lesson's exercise source, without calls of check and progress."""
    (file,) = (ROOT / "sources" / "exercises").glob(f"{lesson:02}_*.py")
    cells = [text(file, cell) for cell in read_cells(file) if cell.kind == "code"]
    return _FINAL_CALLS.sub("", "\n\n".join(["import course_lib", *cells]))


def module_from(source: str, name: str = "student") -> ModuleType:
    """Write ``source`` to a real file and import it, as a notebook's code would be seen."""
    folder = Path(tempfile.mkdtemp(prefix="course-test-"))
    file = folder / f"{name}_{abs(hash(source)):x}.py"
    file.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    with contextlib.redirect_stdout(io.StringIO()):  # what the notebook's cells print
        spec.loader.exec_module(module)
    return module


@cache
def solutions(lesson: int) -> ModuleType:
    """Return a module with all solved functions of a lesson."""
    return module_from(code(lesson), f"solved_{lesson:02}")


@cache
def stubs(lesson: int) -> ModuleType:
    """Return the module that a student starts from: every solution region is a stub."""
    return module_from(code(lesson, blank), f"stub_{lesson:02}")
