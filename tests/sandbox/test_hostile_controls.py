"""Every file of tests/hostile does what it says as soon as nothing holds it back.

`test_hostile` shows that an attack gains nothing. It would show the same of an attack whose
target has been renamed. So the same file, unchanged, is run here where the defence is off: in the
room of the sandbox without walls, with a grader that believes where numbers come from, or in the
process of a careless grader. A line at the head of the file says what is seen then.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from drawn import swept
from sandbox import open_room
from sandbox.test_hostile import FEW, FILES, lives, processes, target

from course_lib.child.codec import BadFrame
from course_lib.classroom import grade_one, job
from course_lib.handin.submissions import Submission
from course_lib.judging import engine
from course_lib.judging.finding import Finding
from course_lib.judging.hosts import launch_message, sandboxed
from course_lib.judging.provenance import Provenance
from course_lib.judging.spec import Case, Exercise, Observed
from course_lib.sandbox import workshop as workshops
from course_lib.sandbox.channel import Closed, TooLate

PATIENCE = {True: 0.5, False: 20.0}  # seconds, with what never ends
OPEN, CARELESS, NONE = "without the sandbox", "before a careless grader", "no control"
# what is seen in the open room -> what of the grader's record shows it
MESSAGES = {
    "ends the process": "ended the whole process|^ends the process",
    "never ends": "did not finish within",
    "takes the memory": "MemoryError",
    "overflows the stack": "RecursionError",
    "fills the disk": "File too large",
    "sends a forged reply": "cannot be read as a result",
    "kills the zygote": "zygote (has died|does not answer)",
}


@dataclass
class Seen:
    """What became of a file: the record, what it did to the machine, what it printed."""

    outcome: str = ""
    message: str = ""
    notes: list[str] = field(default_factory=list)
    said: str = ""
    processes: int = 0

    def shows(self, effect: str) -> bool:
        """Return whether the effect that a file's head names was seen."""
        if effect in MESSAGES:
            return bool(re.search(MESSAGES[effect], "\n".join([self.message, *self.notes]), re.M))
        if effect == "starts processes":
            return self.processes > 0
        if text := re.fullmatch(r"prints (.+)", effect):
            return text[1].encode().decode("unicode_escape") in self.said
        return effect in (self.outcome, *self.notes)


@pytest.fixture(scope="module")
def room() -> Iterator[workshops.Workshop]:
    """Return a workshop whose children are bounded, and no longer confined."""
    with pytest.MonkeyPatch.context() as patch:
        here = f"import sys; sys.path.append({str(Path(__file__).parents[1])!r}); "
        imports = workshops._IMPORTS
        opened = (*imports["interpreter"], open_room.__name__)
        patch.setattr(workshops, "_IMPORTS", {**imports, "interpreter": opened})
        patch.setattr(workshops, "_START", here + workshops._START)
        with job.workshop() as workshop:
            yield workshop


def head(file: Path) -> tuple[str, str]:
    """Return where a hostile file is run without a defence, and what is seen then."""
    found = re.findall(rf"^# ({OPEN}|{CARELESS}|{NONE}): (.+)$", file.read_text(), re.MULTILINE)
    assert len(found) == 1, f"{file.name} needs one line that says what it does undefended"
    return found[0]


@pytest.mark.parametrize("file", swept(FILES, FEW, lambda file: file.stem))
def test_it_succeeds_without_the_defence(room, file, monkeypatch):
    where, effect = head(file)
    if where == NONE:
        pytest.skip(effect)
    if file.stem == "read_the_parents_memory" and not _may_read_memory():
        pytest.skip("this system shows nobody but root the memory of another process")
    text = file.read_text()
    if where == CARELESS:
        seen = _trusted(room, text)
    else:
        seen = _graded(room, text, monkeypatch, PATIENCE[effect == "never ends"])
    assert seen.shows(effect), seen


def test_these_graders_still_know_right_from_wrong(room, monkeypatch):
    for answer, outcome, judged in (("x + 1", "incorrect", "wrong"), ("x * 1", "passed", "right")):
        text = f"def echo(x):\n    return {answer}\n"
        assert _trusted(room, text) == Seen(notes=[judged])
        graded = _graded(room, text, monkeypatch, PATIENCE[False])
        assert (graded.outcome, graded.notes, graded.processes) == (outcome, [], 0)


def _may_read_memory() -> bool:
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    return os.geteuid() == 0 or not scope.exists() or scope.read_text().strip() == "0"


def _graded(room: workshops.Workshop, text: str, patch: pytest.MonkeyPatch, seconds: float) -> Seen:
    """Grade a file in the open room, by a grader that believes all it is told."""
    _believe(patch)
    seen = Seen()
    patch.setattr(workshops.Child, "end", _counting(workshops.Child.end, seen))
    exercise = _credulous(target(text), seconds)
    handed_in = Submission("mallory", (("e.py", text.encode()),))
    (line,) = grade_one.grade(room, handed_in, [exercise], b"a secret")
    seen.outcome, seen.message = line["outcome"], line["message"]
    return _with_notes(seen, room)


def _trusted(room: workshops.Workshop, text: str) -> Seen:
    """Run a file by the careless grader."""
    exercise = target(text)
    with room.task(f"{open_room.__name__}:trust", cpu_seconds=20) as child:
        child.send({"exercise": exercise.id, "program": text})
        with suppress(Closed, BadFrame, TooLate):
            child.receive(time.monotonic() + 20)
        seen = _with_notes(Seen(), room)
    return seen


def _with_notes(seen: Seen, room: workshops.Workshop) -> Seen:
    """Take what the room's children have noted and printed."""
    for name in (open_room.SEEN, open_room.SAID):
        file = Path(room._zygote("interpreter").folder.name) / name
        if file.exists():
            text = file.read_text(errors="replace")
            file.unlink()
            if name == open_room.SEEN:
                seen.notes = text.splitlines()
            else:
                seen.said = text
                seen.notes += ["File too large"] if len(text) >= open_room.LARGEST_FILE else []
    return seen


def _believe(patch: pytest.MonkeyPatch) -> None:
    """Let the grader ask nothing about numbers and races, nor whether a kernel compiles."""

    patch.setattr(engine, "no_race", lambda *args: None)
    patch.setattr(Provenance, "stranger", lambda *args: None)
    patch.setattr(Provenance, "too_many", lambda *args: None)
    patch.setattr(Provenance, "from_a_kernel", lambda *args: True)
    patch.setattr(sandboxed.Sandboxed, "doubt", lambda *args: None)
    patch.setattr(sandboxed.Sandboxed, "afresh", lambda *args: None)
    patch.setattr(launch_message, "MOST_PROGRAMS", 1 << 40)
    patch.setattr(grade_one.Compiler, "report", lambda *args: None)
    patch.setattr(workshops.Workshop, "level", "none")


def _credulous(exercise: Exercise, seconds: float) -> Exercise:
    """Return the exercise with one case, another patience, and a careless judge.

    Attacks on 7.1 launch once for each number of the answer: they get the case with the fewest.
    """

    def judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
        if open_room.agrees(observed.result, expected):
            return None
        return Finding("the values", "wrong")

    def one(rng: Any) -> list[Case]:
        cases = exercise.cases(rng)
        return [min(cases, key=lambda case: case.args[0].numel() if exercise.id == "7.1" else 0)]

    return replace(exercise, cases=one, judge=judge, seconds=seconds, mistakes=())


def _counting(end: Any, seen: Seen) -> Any:
    """Return `Child.end` that first counts what lives beside the zygote and its child."""

    def ends(child: workshops.Child) -> dict[str, Any]:
        if not child.usage:
            zygote = child._zygote._process.pid
            alive = [p for p in processes(zygote) if p != child.pid and lives(p)]
            seen.processes = max(seen.processes, len(alive))
        return end(child)

    return ends
