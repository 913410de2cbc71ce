"""The set-up cell styles the page in a notebook's kernel, and nothing anywhere else."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from course_lib.style import page


@pytest.mark.parametrize(("shell", "shown"), [(SimpleNamespace(kernel=1), 1), (None, 0)])
def test_only_a_notebook_gets_the_style(monkeypatch, shell, shown):
    seen = []
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    monkeypatch.setattr("IPython.display.display", seen.append)
    page.set_page()
    assert len(seen) == shown
    assert all("42em" in style.data and "16px" in style.data for style in seen)
