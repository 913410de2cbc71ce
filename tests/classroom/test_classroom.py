"""A class: collecting what was handed in, grading it once, keeping records, converting them."""

from __future__ import annotations

import csv
import io
import json
import multiprocessing
import os
import re
import time
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
from judging.helpers import ROOT

from course_lib import __version__, cli
from course_lib.classroom import batch, command
from course_lib.classroom import formats as gradebook
from course_lib.classroom.record import Records, plain, record
from course_lib.classroom.submission import grade
from course_lib.handin.files import (
    MAX_FILE,
    MAX_FILES,
    NoSubmissions,
    Submission,
    submissions,
)
from course_lib.sandbox.workshop import Workshop
from course_lib.specs import find

ECHO = "def echo(x):\n    return x.copy()\n"
WRONG = "def echo(x):\n    return x + x\n"


# Collecting -------------------------------------------------------------------------------------


def collected(place: Path) -> dict[str, Submission]:
    return {s.student: s for s in submissions(place)}


def test_a_folder_holds_students_as_files_folders_and_zips(tmp_path):
    (tmp_path / "Ada Lovelace (1)" / "nested" / "deeper").mkdir(parents=True)
    (tmp_path / "Ada Lovelace (1)" / "nested" / "deeper" / "hw (2).py").write_text(ECHO)
    (tmp_path / "émile.py").write_text(ECHO)
    _zip(tmp_path / "grace.zip", {"a/hw.py": ECHO, "__MACOSX/a/._hw.py": "junk"})
    (tmp_path / "notes.txt").write_text("not a submission")
    (tmp_path / ".DS_Store").write_text("junk")
    found = collected(tmp_path)
    assert set(found) == {"Ada Lovelace (1)", "émile", "grace"}
    assert all(s.files[0][1] == ECHO.encode() for s in found.values())


def test_a_zip_of_the_class_reads_like_the_folder(tmp_path):
    files = {"ada/hw.py": ECHO, "ada/more/hw2.py": WRONG, "bob/hw.py": WRONG}
    for folder in ("", "all/"):
        place = tmp_path / f"class{len(folder)}.zip"
        _zip(place, {folder + name: text for name, text in files.items()})
        found = collected(place)
        assert set(found) == {"ada", "bob"}
        assert len(found["ada"].files) == 2


@pytest.mark.parametrize(
    "name", ["../../evil.py", "/etc/evil.py", "a/../../evil.py", "C:\\evil.py"]
)
def test_names_that_leave_their_folder_are_refused(tmp_path, name):
    _zip(tmp_path / "mallory.zip", {name: ECHO})
    (found,) = submissions(tmp_path)
    assert not found.files
    assert "leaves its folder" in found.problem


def test_links_are_refused_in_folders_and_in_zips(tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    place = tmp_path / "class"
    (place / "eve").mkdir(parents=True)
    (place / "eve" / "hw.py").symlink_to(tmp_path / "secret.txt")
    (place / "folder").symlink_to(tmp_path)
    info = zipfile.ZipInfo("hw.py")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(place / "zed.zip", "w") as archive:
        archive.writestr(info, "/etc/passwd")
    for submission in collected(place).values():
        assert not submission.files
        assert "link" in submission.problem


def test_pipes_do_not_block_and_are_refused(tmp_path):
    (tmp_path / "eve").mkdir()
    os.mkfifo(tmp_path / "eve" / "hw.py")
    (found,) = submissions(tmp_path)
    assert "no plain file" in found.problem


def test_bombs_are_refused_whatever_size_they_claim(tmp_path):
    place = tmp_path / "bomb.zip"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("hw.py", b"#" * (MAX_FILE + 1))
    data = place.read_bytes()
    place.write_bytes(
        data.replace((MAX_FILE + 1).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    )
    _zip(tmp_path / "many.zip", {f"{i}.py": "" for i in range(MAX_FILES + 1)})
    with zipfile.ZipFile(tmp_path / "nested.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner.zip", data)
    found = collected(tmp_path)
    assert len(found) == 3
    assert all(s.problem and not s.files for s in found.values())


def test_damaged_and_encrypted_zips_are_refused(tmp_path):
    (tmp_path / "damaged.zip").write_bytes(b"PK\x03\x04 not really")
    _zip(tmp_path / "locked.zip", {"hw.py": ECHO})
    data = bytearray((tmp_path / "locked.zip").read_bytes())
    data[6] |= 1
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "locked.zip").write_bytes(data)
    found = collected(tmp_path)
    assert "damaged" in found["damaged"].problem
    assert "encrypted" in found["locked"].problem


def test_hostile_names_are_shown_plain_and_stay_apart(tmp_path):
    for name in ("a\x1b[31mb", "a[31mb", "\u202egnp.py", "=1+1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "hw.py").write_text(ECHO)
    names = [s.student for s in submissions(tmp_path)]
    assert len(set(names)) == 4
    assert not re.search(r"[\x00-\x1f\u202e]", "".join(names))


def test_nothing_to_grade_is_said_in_a_sentence(tmp_path):
    for place in (tmp_path, tmp_path / "missing"):
        with pytest.raises(NoSubmissions, match="there is no"):
            list(submissions(place))


def _zip(place: Path, files: dict[str, str]) -> None:
    with zipfile.ZipFile(place, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


# Grading ----------------------------------------------------------------------------------------


def notebook(**sources: str) -> str:
    cells = [nbformat.v4.new_code_cell(text, id=name) for name, text in sources.items()]
    return nbformat.writes(nbformat.v4.new_notebook(cells=cells))


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """Grade a small class with two workers, one of which is killed in the middle."""
    place, out = tmp_path_factory.mktemp("class"), tmp_path_factory.mktemp("out")
    by_id = notebook(**{"ex-0-1": "import numpy as np\n" + ECHO, "other": "1/0"})
    nameless = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("%matplotlib\n" + WRONG)])
    files = {
        "by_id.ipynb": by_id,
        "by_name.ipynb": re.sub(r'\s*"id": "[^"]*",', "", nbformat.writes(nameless)),
        "empty.ipynb": "",
        "no_notebook.ipynb": "{]",
        "deep.ipynb": "[" * 100_000,
        "binary.py": b"\xff\xfe\x00",
        "nothing.py": "x = 1\n",
        "broken.py": "def echo(x):\n    return (\n",
        "stub.py": "def echo(x):\n    raise NotImplementedError('not attempted')\n",
        "=cmd.py": "def echo(x):\n    raise ValueError('=1+1 <b>')\n",
    }
    files |= {f"good{i}.py": ECHO for i in range(6)}
    for name, text in files.items():
        (place / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    killed = []

    def kill_one(_submission):
        if len(killed) < 1:
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], 9)

    job = batch.Job(b"a secret of the test", ("0.1",))
    records = Records(out / "records.jsonl")
    tally = batch.grade_class(submissions(place), records, job, jobs=2, progress=kill_one)
    return place, out, tally, files


def test_workers_that_die_between_two_submissions_lose_none(tmp_path):
    """They answer, die, and only then are given more: the pipe is broken at the sender."""
    place = tmp_path / "class"
    place.mkdir()
    for i in range(4):
        (place / f"good{i}.py").write_text(ECHO)
    killed = []

    def kill_all(_submission):
        for worker in multiprocessing.active_children() if not killed else ():
            killed.append(worker.pid)
            worker.kill()
            worker.join()

    records = Records(tmp_path / "records.jsonl")
    job = batch.Job(b"a secret of the test", ("0.1",))
    tally = batch.grade_class(submissions(place), records, job, jobs=2, progress=kill_all)
    assert len(killed) == 2
    assert tally.graded == 4
    assert {line["outcome"] for (line,) in records.latest().values()} == {"passed"}


OUTCOMES = {
    "by_id": "passed",
    "by_name": "incorrect",
    "empty": "refused",
    "no_notebook": "refused",
    "deep": "refused",
    "binary": "refused",
    "nothing": "refused",
    "broken": "error",
    "stub": "not attempted",
    "=cmd": "error",
    **{f"good{i}": "passed" for i in range(6)},
}


def test_every_submission_is_graded_exactly_once_though_a_worker_was_killed(graded):
    _, out, tally, files = graded
    lines = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    assert sorted(line["student"] for line in lines) == sorted(n.rpartition(".")[0] for n in files)
    assert {line["student"]: line["outcome"] for line in lines} == OUTCOMES
    assert tally.graded == len(files)
    assert tally.for_a_person == 5


def test_a_record_says_all_that_is_promised(graded):
    (line,) = Records(graded[1] / "records.jsonl").latest()["by_name"]
    assert line["exercise"] == "0.1"
    assert line["score"] == 0
    assert line["max_score"] == find("0.1").points
    assert line["property"] == "the values"
    assert line["misconception"] == "something is computed"
    assert line["fault_of"] == "student"
    assert line["sandbox"] == "full"
    assert line["cpu_seconds"] > 0
    assert {"torch", "triton", "numpy", "python", "course"} == set(line["versions"])
    assert [p["passed"] for p in line["properties"]] == [False] * 4


def test_a_second_run_grades_only_what_changed(graded, monkeypatch):
    place, out, _, files = graded
    started = []
    monkeypatch.setattr(batch, "_work", lambda waiting, *_: started.extend(waiting) or iter(()))
    job = batch.Job(b"a secret of the test", ("0.1",))
    (place / "good0.py").write_text(ECHO + "# changed\n")
    with open(out / "records.jsonl", "a") as file:
        file.write('{"student": "good1", "content": "torn')  # a run killed while writing
    tally = batch.grade_class(submissions(place), Records(out / "records.jsonl"), job)
    assert [s.student for s in started] == ["good0"]
    assert tally.kept == len(files) - 1


def test_a_torn_line_does_not_swallow_the_next_record(tmp_path):
    records = Records(tmp_path / "r.jsonl")
    records.path.write_text('{"student": "a", "cont')
    records.append([record("b", "c", None, "refused", "text")])
    assert set(records.latest()) == {"b"}


def test_a_submission_written_in_part_is_not_taken_for_whole(tmp_path):
    records = Records(tmp_path / "r.jsonl")
    two = [record("a", "c", find(i), "passed", "", passed=True) for i in ("1.1", "1.2")]
    records.append(two)
    whole = records.path.read_text()
    records.path.write_text(whole.splitlines()[0] + "\n")
    assert records.latest() == {}
    records.path.write_text(whole)
    assert len(records.latest()["a"]) == 2


def test_without_a_whole_sandbox_nothing_is_graded(tmp_path, monkeypatch):
    class Weak:
        def __init__(self, job):
            self.connection, theirs = multiprocessing.Pipe()
            theirs.send(("level", "limits-only"))

        def close(self):
            pass

    monkeypatch.setattr(batch, "_Worker", Weak)
    records = Records(tmp_path / "r.jsonl")
    with pytest.raises(batch.Unsafe, match="--allow-unsandboxed"):
        batch.grade_class([Submission("a", (("a.py", b""),))], records, batch.Job(b"12345678"))
    assert not records.path.exists()


def test_the_command_says_what_is_wrong_in_a_sentence(tmp_path, capsys, monkeypatch):
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "a.py").write_text(ECHO)
    (tmp_path / "short").write_text("x")
    place, out = str(tmp_path / "class"), str(tmp_path / "out")
    for arguments in (
        [str(tmp_path / "missing"), "--out", out],
        [place, "--out", out, "--jobs", "0"],
        [place, "--out", out, "--seed-file", str(tmp_path / "short")],
        [place, "--out", out, "--seed-file", str(tmp_path / "absent")],
    ):
        assert cli.main(["grade", *arguments]) == 2
        assert capsys.readouterr().err.count("\n") == 1

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device", out)

    monkeypatch.setattr(command, "grade_class", full)
    assert cli.main(["grade", place, "--out", out]) == 2
    assert "No space left" in capsys.readouterr().err


def test_records_of_other_exercises_are_graded_again(tmp_path, monkeypatch):
    """A submission that was refused for one list of exercises is not refused for another."""
    asked = []

    def refuse(waiting, job, *_):
        asked.append(job.exercises)
        return ((s, [record(s.student, s.content, None, "refused", "no")]) for s in waiting)

    monkeypatch.setattr(batch, "_work", refuse)
    records = Records(tmp_path / "r.jsonl")
    ada = Submission("ada", (("e.py", b"x = 1"),))
    for exercises in ((), (), ("7-star:a",), ("7-star:a",), ()):
        batch.grade_class([ada], records, batch.Job(b"12345678", exercises))
    assert asked == [(), ("7-star:a",), ()]


def test_records_of_another_version_of_the_course_are_graded_again(tmp_path, monkeypatch):
    """All of them and once: what this version has graded is kept."""
    graded = []

    def fail(waiting, *_):
        graded.extend(s.student for s in waiting)
        return ((s, [record(s.student, s.content, find("0.1"), "error", "no")]) for s in waiting)

    monkeypatch.setattr(batch, "_work", fail)
    records, job = Records(tmp_path / "r.jsonl"), batch.Job(b"12345678", ("0.1",))
    two = [Submission(name, (("e.py", b"x = 1"),)) for name in ("ada", "bob")]
    assert batch.grade_class(two, records, job).graded == 2
    assert batch.grade_class(two, records, job).kept == 2
    older = records.path.read_text().replace(f'"course": "{__version__}"', '"course": "0.0.9"')
    records.path.write_text(older)
    tally = batch.grade_class(two, records, job)
    assert (tally.graded, tally.kept) == (2, 0)
    assert batch.grade_class(two, records, job).kept == 2
    assert graded == ["ada", "bob", "ada", "bob"]


def test_another_secret_needs_another_out(tmp_path, monkeypatch):
    """Inputs are drawn from the secret: records of two secrets do not belong to one class."""
    monkeypatch.setattr(command, "grade_class", lambda *_args, **_kwargs: batch.Tally())
    place, out = tmp_path / "class", tmp_path / "out"
    place.mkdir()
    (place / "ada.py").write_text(ECHO)
    for name in ("one", "two"):
        (tmp_path / name).write_text(f"secret number {name}")
    command.run(place, out, seed_file=tmp_path / "one")
    command.run(place, out, seed_file=tmp_path / "two")  # nothing was graded yet
    Records(out / "records.jsonl").append([record("ada", "c", find("0.1"), "passed", "")])
    command.run(place, out, seed_file=tmp_path / "two")
    for other in (tmp_path / "one", None):
        with pytest.raises(ValueError, match=r"another secret.*--out"):
            command.run(place, out, seed_file=other)
    kept = [f for f in out.iterdir() if f.name != "records.jsonl"]
    assert all(f.stat().st_mode & 0o077 == 0 for f in kept)
    assert not any(b"number two" in f.read_bytes() for f in kept)


def test_whose_name_is_unclear_is_for_a_person(tmp_path, monkeypatch):
    def passed(waiting, *_):
        lines = [record("bob [1]", "c", find("0.1"), "passed", "", passed=True)]
        return ((submission, lines) for submission in waiting)

    monkeypatch.setattr(batch, "_work", passed)
    records, bob = Records(tmp_path / "r.jsonl"), Submission("bob [1]", note="Who is this?")
    for _ in range(2):  # now, and when it is taken over from before
        tally = batch.grade_class([bob], records, batch.Job(b"12345678"))
        assert tally.for_a_person == 1
    ((_, line),) = [(n, lines[0]) for n, lines in records.latest().items()]
    assert line["for_a_person"] == "Who is this?"
    assert "Who is this?" in gradebook.table(records.latest())


def test_the_secret_is_kept_for_the_next_run_and_readable_by_nobody_else(tmp_path):
    first = batch.secret_of(tmp_path, None)
    assert first == batch.secret_of(tmp_path, None)
    assert (tmp_path / "secret_seed").stat().st_mode & 0o077 == 0


def test_inputs_differ_between_submissions_and_secrets_and_are_repeatable():
    from course_lib.judging.examiner import draw_cases

    def drawn(secret: bytes, content: str):
        return draw_cases(find("0.1"), secret, content)[1].args[0].tolist()

    assert drawn(b"s", "a") == drawn(b"s", "a")
    assert len({str(drawn(s, c)) for s in (b"s", b"t") for c in "ab"}) == 4


BLANK = 'def echo(x):\n    raise NotImplementedError("not attempted")\n'


def graded_alone(workshop: Workshop, *files: tuple[str, str]) -> dict:
    submission = Submission("ada", tuple((name, text.encode()) for name, text in files))
    (line,) = grade(workshop, submission, [find("0.1")], b"a secret", batch.SPLITTER)
    return line


@pytest.mark.parametrize(
    ("files", "outcome", "counted"),
    [
        ((("0.py", ECHO), ("0_copy.py", BLANK)), "passed", "0.py"),
        ((("0.py", BLANK), ("0_copy.py", ECHO)), "passed", "0_copy.py"),
        ((("0.py", WRONG), ("1.py", ECHO)), "passed", "1.py"),
        ((("0.py", "def echo(x):\n    return (\n"), ("1.py", BLANK)), "error", "0.py"),
        ((("0.py", BLANK), ("1.py", BLANK)), "not attempted", "1.py"),
    ],
)
def test_the_last_file_that_is_not_the_blank_counts_and_is_named(workshop, files, outcome, counted):
    line = graded_alone(workshop, *files)
    assert (line["outcome"], line["file"]) == (outcome, counted)
    assert any(counted in note and "0.1" in note for note in line["notes"])


def test_a_submission_has_one_deadline_for_all_its_files(workshop, monkeypatch):
    from course_lib.classroom import submission

    monkeypatch.setattr(submission, "SPLIT_SECONDS", 3.0)
    slow = "x = 1\n" * 200_000 + WRONG
    before = time.monotonic()
    line = graded_alone(workshop, ("0.py", ECHO), *((f"{i}.py", slow) for i in range(1, 9)))
    assert time.monotonic() - before < 20
    assert (line["outcome"], line["file"]) == ("passed", "0.py")
    assert any("3 seconds" in note for note in line["notes"])


def test_a_record_shows_no_path_of_the_graders_machine():
    course = Path(batch.__file__).parents[2]
    kept = "12 / 3 = 4, o/l, a //b, ./here/it/is, 'https://example.org/a/b', :math:`x`"
    text = (
        f"FileNotFoundError: '{course}/course_lib/x.json' in {os.path.expanduser('~')}/a b/c.py, "
        f'/usr/lib/python3.11/ast.py and File "{os.path.dirname(os.__file__)}/ast.py"; {kept}'
    )
    shown = record("ada", "c", None, "error", text)["message"]
    assert "'course_lib/x.json'" in shown
    assert kept in shown
    for path in (str(course), os.path.expanduser("~"), "/usr/lib", os.path.dirname(os.__file__)):
        assert f"{path}/" not in shown.replace(kept, "")


@pytest.mark.parametrize("part", ["kernels.ladder", "attention.naive", "specs"])
def test_whoever_imports_the_courses_answers_reads_one_plain_sentence(workshop, part):
    line = graded_alone(
        workshop, ("e.py", f"import course_lib.{part} as y\n\ndef echo(x):\n    return y\n")
    )
    package = part.partition(".")[0]
    assert f"may not import course_lib.{package}" in line["message"]
    assert "Errno" not in line["message"]
    assert "/" not in line["message"]
    assert line["property"] == "PermissionError"


@pytest.mark.slow
@pytest.mark.parametrize("lesson", range(9))
def test_every_solution_passes_in_the_sandbox(workshop, lesson):
    from course_lib.specs import EXERCISES

    (file,) = (ROOT / "solutions").glob(f"{lesson:02}_*.ipynb")
    submission = Submission("solution", ((file.name, file.read_bytes()),))
    lines = grade(workshop, submission, EXERCISES, b"a secret", batch.SPLITTER)
    assert {line["exercise"] for line in lines} == {e.id for e in EXERCISES if e.lesson == lesson}
    assert [line for line in lines if line["outcome"] != "passed"] == []


# Gradebooks -------------------------------------------------------------------------------------

FORMULA = '=HYPERLINK("http://127.0.0.1")'
CLASS = {
    FORMULA: [record(FORMULA, "c", find("1.1"), "error", "@SUM(1)\n<script>\x1b[31m")],
    "bob, b": [
        record("bob, b", "c", find("1.1"), "passed", "", passed=True, seconds=1.5),
        record("bob, b", "c", find("1.2"), "infrastructure", "disk"),
    ],
}


@pytest.mark.parametrize("start", [*"=+-@＝＋－＠\t\r\n", " =", "\u3000="])
def test_spreadsheets_get_no_formulas(start):
    """Neither as a whole cell nor as what an unquoted semicolon would cut off."""
    for name in (FORMULA, f"{start}1+1", f"x;{start}HYPERLINK(1)"):
        says = f"{start}SUM(1)\n<script>\x1b[31m"
        rows = {name: [record(name, "c", find("1.1"), "error", says)]}
        for text in (
            gradebook.table(rows),
            gradebook.moodle(rows),
            gradebook.canvas(rows, "T (1)"),
        ):
            for row in csv.reader(io.StringIO(text)):
                assert not any(cell.strip()[:1] in tuple("=+-@＝＋－＠") for cell in row), row
            for cell in re.split(r'(?<=")[,\r]', text.strip()):
                assert re.fullmatch(r'\n?"(?:[^"]|"")*"', cell), cell


def test_canvas_has_its_two_header_rows():
    rows = list(csv.reader(io.StringIO(gradebook.canvas(CLASS, "Attention (42)"))))
    header = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Attention (42)"]
    assert rows[0] == header
    assert rows[1] == ["    Points Possible", "", "", "", "", "3"]
    assert (rows[3][0], rows[3][-1]) == ("bob, b", "1")


def test_gradescope_knows_scores_and_status():
    data = json.loads(json.dumps(gradebook.results_json(CLASS["bob, b"])))
    assert data["score"] == 1
    assert [t["status"] for t in data["tests"]] == ["passed", "failed"]
    assert {t["output_format"] for t in data["tests"]} == {"text"}


def test_junit_tells_failures_from_errors_and_escapes():
    text = gradebook.junit(CLASS)
    assert "<script>" not in text
    assert "\x1b" not in text
    suites = ElementTree.fromstring(text.partition("\n")[2])
    assert [(s.get("failures"), s.get("errors")) for s in suites] == [("1", "0"), ("0", "1")]


@pytest.mark.parametrize("form", gradebook.FORMATS)
def test_every_format_is_written(tmp_path, form):
    made = gradebook.write(form, CLASS, tmp_path)
    files = [made] if made.is_file() else [f for f in made.rglob("*") if f.is_file()]
    assert files
    assert all(f.is_relative_to(tmp_path) and f.stat().st_size for f in files)


def test_plain_text_has_no_control_characters():
    assert plain("a\x1b[31mb\u202ec\x9b\ud800\nd") == "a[31mbc?\nd"
