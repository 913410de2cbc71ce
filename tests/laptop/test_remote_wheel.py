"""A wheel read in parts: what is broken on the way or is not the recorded file is not taken."""

from __future__ import annotations

import sys
from zipfile import ZipFile

import pytest
from laptop.index import BROKEN, PARTS, WHOLE

from course_lib.laptop.remote_wheel import NoParts, remote_wheel
from course_lib.laptop.wheel import WheelProblem, interpreter_wheel


def made_of(index, folder):
    with remote_wheel(f"{index.address}/{index.wheel.name}") as official:
        return interpreter_wheel(official, folder)


def test_it_is_the_wheel_that_the_whole_one_gives(official, serve, tmp_path):
    (tmp_path / "whole").mkdir()
    with ZipFile(official) as whole:
        expected = ZipFile(interpreter_wheel(whole, tmp_path / "whole"))
    found = ZipFile(made_of(serve(official, PARTS), tmp_path))
    assert found.namelist() == expected.namelist()
    assert all(found.read(name) == expected.read(name) for name in found.namelist())


def test_a_file_that_is_not_the_recorded_one_is_refused(forged, serve, tmp_path):
    with pytest.raises(WheelProblem, match=r"language/core\.py is not the file"):
        made_of(serve(forged, PARTS), tmp_path)


@pytest.mark.parametrize("gives", [WHOLE, BROKEN])
def test_where_no_part_can_be_had_it_says_so_in_a_line(official, serve, tmp_path, gives):
    with pytest.raises(NoParts) as told:
        made_of(serve(official, gives), tmp_path)
    assert len(str(told.value).splitlines()) == 1


def test_nobody_answers_or_nobody_can_ask(monkeypatch, serve, official, tmp_path):
    index = serve(official, PARTS)
    index.shutdown()
    index.server_close()
    with pytest.raises(NoParts):
        made_of(index, tmp_path)
    monkeypatch.setitem(sys.modules, "remotezip", None)
    with pytest.raises(NoParts, match="remotezip"):
        made_of(index, tmp_path)
