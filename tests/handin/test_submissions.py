"""What a class hands in: folders, files, zips, and zips as attackers and odd archivers make them.

They are read or refused, never a crash, never a flood.
"""

from __future__ import annotations

import io
import os
import re
import struct
import tempfile
import time
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.handin import submissions as collect
from course_lib.handin.submissions import (
    MAX_FILE,
    MAX_FILES,
    MAX_TOTAL,
    NoSubmissions,
    Submission,
    submissions,
)

ECHO = b"def echo(x):\n    return x.copy()\n"
WRONG = b"def echo(x):\n    return x + x\n"


def zipped(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip whose members have exactly these names, whatever `zipfile` thinks of them."""
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", method) as archive:
        warnings.simplefilter("ignore")  # of names that occur twice
        for name, data in members:
            info = zipfile.ZipInfo("x")
            info.filename, info.compress_type = name, method
            archive.writestr(info, data)
    return file.getvalue()


def of_version_99(data: bytes) -> bytes:
    """Return the zip with an entry that asks for a reader nobody has."""
    at = data.index(b"PK\x01\x02") + 6
    return data[:at] + b"\x63" + data[at + 1 :]


def directory_only(entries: int) -> bytes:
    """Return a small zip whose directory repeats one ignored entry: work, and nothing to read."""
    data = zipped(("__MACOSX/a", b""), method=zipfile.ZIP_STORED)
    start, end = data.index(b"PK\x01\x02"), data.index(b"PK\x05\x06")
    directory, count = data[start:end] * entries, entries & 0xFFFF
    last = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, count, count, len(directory), start, 0)
    return data[:start] + directory + last


def only(place: Path) -> Submission:
    (found,) = submissions(place)
    return found


def collected(place: Path) -> dict[str, Submission]:
    return {s.student: s for s in submissions(place)}


def write_zip(place: Path, files: dict[str, bytes | str]) -> None:
    with zipfile.ZipFile(place, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


def test_a_folder_holds_students_as_files_folders_and_zips(tmp_path):
    (tmp_path / "Ada Lovelace (1)" / "nested" / "deeper").mkdir(parents=True)
    (tmp_path / "Ada Lovelace (1)" / "nested" / "deeper" / "hw (2).py").write_bytes(ECHO)
    (tmp_path / "émile.py").write_bytes(ECHO)
    write_zip(tmp_path / "grace.zip", {"a/hw.py": ECHO, "__MACOSX/a/._hw.py": "junk"})
    (tmp_path / "notes.txt").write_text("not a submission")
    (tmp_path / ".DS_Store").write_text("junk")
    found = collected(tmp_path)
    assert set(found) == {"Ada Lovelace (1)", "émile", "grace"}
    assert all(s.files[0][1] == ECHO for s in found.values())


def test_a_zip_of_the_class_reads_like_the_folder(tmp_path):
    files = {"ada/hw.py": ECHO, "ada/more/hw2.py": WRONG, "bob/hw.py": WRONG}
    for folder in ("", "autumn/"):
        place = tmp_path / ("autumn.zip" if folder else "class.zip")
        write_zip(place, {folder + name: text for name, text in files.items()})
        found = collected(place)
        assert set(found) == {"ada", "bob"}
        assert len(found["ada"].files) == 2


@pytest.mark.parametrize("below", ["", "class"])
def test_the_folder_of_the_records_is_no_student(tmp_path, below):
    """It may lie among what is handed in, and be named by another path."""
    place = tmp_path / "class"
    (place / below / "ada").mkdir(parents=True)
    (place / below / "ada" / "hw.py").write_bytes(ECHO)
    out = place / "ada" / ".." / "grades" if not below else place / below / "grades"
    before = list(submissions(place, out))
    out.resolve().mkdir()
    (out / "export.py").write_bytes(WRONG)
    assert list(submissions(place, out)) == before
    assert [s.student for s in before] == ["ada"]


def test_a_students_folders_are_not_taken_for_the_class(tmp_path):
    """A folder "alice" within mallory's is mallory's, also where nobody else handed in."""
    late = tmp_path / "late"
    (late / "mallory" / "alice").mkdir(parents=True)
    (late / "mallory" / "alice" / "hw.py").write_bytes(WRONG)
    write_zip(late.with_suffix(".zip"), {"mallory/alice/hw.py": WRONG})
    write_zip(tmp_path / "zips.zip", {"mallory/alice.zip": zipped(("hw.py", WRONG))})
    for place in (late, late.with_suffix(".zip"), tmp_path / "zips.zip"):
        assert only(place).student == "mallory"
        assert "if it is the class" in only(place).note
    (late / "mallory" / "hw.py").write_bytes(ECHO)
    assert only(late).note == ""


def test_a_folder_of_the_places_name_is_the_class(tmp_path):
    place = tmp_path / "autumn.2026"
    (place / "autumn.2026" / "ada").mkdir(parents=True)
    (place / "autumn.2026" / "ada" / "hw.py").write_bytes(ECHO)
    assert only(place).student == "ada"


@pytest.mark.parametrize(
    "name", ["../../evil.py", "/etc/evil.py", "a/../../evil.py", "C:\\evil.py"]
)
def test_names_that_leave_their_folder_are_refused(tmp_path, name):
    write_zip(tmp_path / "mallory.zip", {name: ECHO})
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
    write_zip(tmp_path / "many.zip", {f"{i}.py": "" for i in range(MAX_FILES + 1)})
    with zipfile.ZipFile(tmp_path / "nested.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner.zip", data)
    found = collected(tmp_path)
    assert len(found) == 3
    assert all(s.problem and not s.files for s in found.values())


def test_damaged_and_encrypted_zips_are_refused(tmp_path):
    (tmp_path / "damaged.zip").write_bytes(b"PK\x03\x04 not really")
    write_zip(tmp_path / "locked.zip", {"hw.py": ECHO})
    data = bytearray((tmp_path / "locked.zip").read_bytes())
    data[6] |= 1
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "locked.zip").write_bytes(data)
    found = collected(tmp_path)
    assert "damaged" in found["damaged"].problem
    assert "encrypted" in found["locked"].problem


def test_a_long_name_keeps_what_says_how_to_read_it():
    assert collect.shown("n" * 300 + ".ipynb") == "n" * 114 + ".ipynb"
    assert len(collect.shown("n." + "x" * 300)) == 120
    assert collect.shown("\x1b") == "unnamed"
    assert collect.shown("\u200b.py") == "unnamed.py"


def test_hostile_names_are_shown_plain_and_stay_apart(tmp_path):
    for name in ("a\x1b[31mb", "a[31mb", "\u202egnp.py", "=1+1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "hw.py").write_bytes(ECHO)
    names = [s.student for s in submissions(tmp_path)]
    assert len(set(names)) == 4
    assert not re.search(r"[\x00-\x1f\u202e]", "".join(names))


def test_nothing_to_grade_is_said_in_a_sentence(tmp_path):
    for place in (tmp_path, tmp_path / "missing"):
        with pytest.raises(NoSubmissions, match="there is no"):
            list(submissions(place))


# Odd archives -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["./", ".", "", "././"])
@pytest.mark.parametrize("inside", ["a student's zip", "the class's zip"])
def test_entries_that_name_nothing_are_passed_over(tmp_path, name, inside):
    """Honest archivers write an entry for ./ itself."""
    if inside == "the class's zip":
        place = tmp_path / "class.zip"
        place.write_bytes(zipped((name, b""), ("ada/e.py", ECHO)))
    else:
        place = tmp_path
        (place / "ada.zip").write_bytes(zipped((name, b""), ("e.py", ECHO)))
    found = only(place)
    assert (found.student, found.files) == ("ada", (("e.py", ECHO),))


def test_a_zip_for_a_future_reader_is_refused_and_the_class_goes_on(tmp_path):
    (tmp_path / "ada.py").write_bytes(ECHO)
    (tmp_path / "mallory.zip").write_bytes(of_version_99(zipped(("e.py", ECHO))))
    honest, mallory = submissions(tmp_path)
    assert honest.files
    assert mallory.problem
    place = tmp_path / "class"
    place.write_bytes(of_version_99(zipped(("ada/e.py", ECHO))))
    with pytest.raises(NoSubmissions, match="neither a folder nor a zip"):
        list(submissions(place))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_that_cannot_be_stopped_at_a_cap_are_refused(tmp_path, method):
    """`zipfile` unpacks bzip2 and LZMA as a whole: 1 MB of it may be tens of gigabytes."""
    (tmp_path / "mallory.zip").write_bytes(zipped(("e.py", b"#" * (1 << 16)), method=method))
    assert "ordinary zip" in only(tmp_path).problem


def test_entries_are_counted_before_the_directory_is_read(tmp_path, monkeypatch):
    """Also the ignored ones: each costs time and memory before it can be ignored."""
    (tmp_path / "mallory.zip").write_bytes(directory_only(20 * MAX_FILES + 1))
    monkeypatch.setattr(zipfile, "ZipFile", lambda *_: pytest.fail("it was read"))
    assert "too many" in only(tmp_path).problem


def test_the_inner_zips_of_one_submission_share_a_budget(tmp_path):
    """A class's zip may hold zips; each passes, all of them together do not."""
    many = [(f"mallory/{i}.zip", directory_only(MAX_FILES)) for i in range(21)]
    place = tmp_path / "class.zip"
    place.write_bytes(zipped(*many, ("ada/e.py", ECHO)))
    found = {s.student: s for s in submissions(place)}
    assert found["ada"].files
    assert "too many" in found["mallory"].problem


def test_what_is_unpacked_and_thrown_away_counts_too(tmp_path, monkeypatch):
    monkeypatch.setattr(collect, "MAX_TOTAL", 1 << 20)
    inner = zipped(("notes.txt", b"\0" * (1 << 20)), method=zipfile.ZIP_STORED)
    place = tmp_path / "class.zip"
    place.write_bytes(zipped(("ada/e.py", ECHO), *((f"m/{i}.zip", inner) for i in range(4))))
    found = {s.student: s for s in submissions(place)}
    assert found["ada"].files
    assert "larger than 1 MiB" in found["m"].problem


def test_a_directory_of_63_mb_costs_no_time(tmp_path):
    (tmp_path / "mallory.zip").write_bytes(directory_only((MAX_TOTAL - (1 << 20)) // 56))
    before = time.process_time()
    assert only(tmp_path).problem
    assert time.process_time() - before < 3.0


NAMES = st.one_of(
    st.sampled_from(
        ["", ".", "./", "..", "/", "//", "\\", "a/", "a/e.py", "e.py", "b.zip", "a/b.zip", "C:e.py"]
    ),
    st.sampled_from(
        ["a/../e.py", "__MACOSX/e.py", ".e.py", "\0e.py", "a\0/e.py", "\x01b/e.py", "b/e.ipynb"]
    ),
    st.text(max_size=12).map(lambda text: text.encode("utf-8", "replace").decode()),
)
INNER = st.lists(st.tuples(NAMES, st.binary(max_size=40)), max_size=4).map(lambda m: zipped(*m))
MEMBERS = st.lists(st.tuples(NAMES, st.one_of(st.binary(max_size=40), INNER)), max_size=6)
# most bytes of a small zip are headers: changing a few reaches every field
CHANGES = st.lists(
    st.tuples(st.floats(0, 1), st.sampled_from([b"\0", b"\xff", b"\x01", b"\x63", b"\x0c", b""])),
    max_size=4,
)


@settings(max_examples=120, deadline=None)
@given(members=MEMBERS, changes=CHANGES, in_class=st.booleans())
def test_whatever_the_bytes_only_no_submissions_escapes(members, changes, in_class):
    """A zip made badly and then damaged, as the class's and as a student's."""
    data = bytearray(zipped(*members))
    for where, new in changes:
        at = int(where * len(data))
        data[at : at + 1] = new
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "class.zip") if in_class else Path(folder)
        Path(folder, "class.zip").write_bytes(data)
        found = []
        with suppress(NoSubmissions):
            found = list(submissions(place))
        if not in_class:
            assert len(found) == 1
    assert len({s.student for s in found}) == len(found)
    for submission in found:
        assert bool(submission.files) != bool(submission.problem)
        assert all(len(content) <= MAX_FILE for _, content in submission.files)


# Names ------------------------------------------------------------------------------------------


def hand_in(place: Path, *names: str) -> dict[str, Submission]:
    for name in names:
        if name.endswith(".py"):
            (place / name).write_bytes(name.encode())
        else:
            (place / name).mkdir()
            (place / name / "e.py").write_bytes(name.encode())
    found = list(submissions(place))
    assert len({s.student for s in found}) == len(found) == len(names)
    return {s.files[0][1].decode(): s for s in found}


def test_no_two_submissions_share_a_name(tmp_path):
    """A folder may be called what a second "alice" would be called."""
    found = hand_in(tmp_path, "alice.py", "alice", "alice [2]", "alice [1]")
    assert (found["alice [1]"].student, found["alice [2]"].student) == ("alice [1]", "alice [2]")
    assert {found["alice.py"].student, found["alice"].student} == {"alice [3]", "alice [4]"}


def test_nobody_takes_a_name_by_hiding_a_character(tmp_path):
    """All that look alike are numbered, and a person is asked who is who."""
    found = hand_in(tmp_path, "\x01bob", "bob", "carol")
    assert {found["\x01bob"].student, found["bob"].student} == {"bob [1]", "bob [2]"}
    assert "bob" in found["\x01bob"].note
    assert "bob" in found["bob"].note
    assert (found["carol"].student, found["carol"].note) == ("carol", "")


@pytest.mark.parametrize("letter", "\u034f\ufe0f\u3164\uffa0\u115f\u17b4\u180b\u2800\U000e0100")
def test_nobody_takes_a_name_by_a_letter_that_is_not_seen(tmp_path, letter):
    found = hand_in(tmp_path, "ada", f"a{letter}da", "eve")
    assert {found["ada"].student, found[f"a{letter}da"].student} == {"ada [1]", "ada [2]"}
    assert "whose is this one?" in found[f"a{letter}da"].note


def test_nobody_takes_a_name_by_its_capitals_or_the_width_of_its_letters(tmp_path):
    """A gradebook's import knows logins and addresses without their capitals."""
    found = hand_in(tmp_path, "ada", "Ada", "\uff21da", "eve", "adam")
    alike = [found[name] for name in ("ada", "Ada", "\uff21da")]
    assert len({s.student.casefold()[-4:] for s in alike} & {" [1]", " [2]", " [3]"}) == 3
    assert all("whose is this one?" in s.note for s in alike)
    assert (found["adam"].student, found["eve"].note) == ("adam", "")
