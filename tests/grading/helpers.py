"""Load solved exercises from their sources, as a real module that inspect can read."""

from __future__ import annotations

import importlib.util
import re
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
_REGION = re.compile(
    r"^(?P<indent>[ ]*)### BEGIN SOLUTION\n.*?^[ ]*### END SOLUTION\n", re.MULTILINE | re.DOTALL
)


def code(lesson: int, *, without: str = r"^(check|setup|title)") -> str:
    """Return the code of a lesson's exercise source, without its check cells and prose."""
    (file,) = (ROOT / "sources" / "exercises").glob(f"{lesson:02}_*.py")
    cells = re.split(r"^# %% ?", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    kept = []
    for cell in cells:
        head, _, body = cell.partition("\n")
        if "[markdown]" not in head and not re.match(without, head.strip()):
            body = re.sub(r"^(progress|hint|check)\(.*\)\n?", "", body, flags=re.MULTILINE)
            kept.append(body)
    return "import course_lib\n" + "\n\n".join(kept)


def module_from(source: str, name: str = "student") -> ModuleType:
    """Write ``source`` to a real file and import it, as a notebook's code would be seen."""
    folder = Path(tempfile.mkdtemp(prefix="course-test-"))
    file = folder / f"{name}_{abs(hash(source)):x}.py"
    file.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


@cache
def solutions(lesson: int) -> ModuleType:
    """Return a module with all solved functions of a lesson."""
    return module_from(code(lesson), f"solved_{lesson:02}")


@cache
def stubs(lesson: int) -> ModuleType:
    """Return the module that a student starts from: every solution region is a stub."""

    def stub(match: re.Match[str]) -> str:
        before = match.string[: match.start()]
        kernel = before.rfind("@triton.jit") > before.rfind("\ndef ", 0, before.rfind("\ndef "))
        line = (
            'tl.static_assert(False, "not attempted")'
            if kernel
            else 'raise NotImplementedError("not attempted")'
        )
        return match["indent"] + line + "\n"

    return module_from(_REGION.sub(stub, code(lesson)), f"stub_{lesson:02}")
