"""progress(): the path that a notebook shows says what the text says, and opens each exercise."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from course_lib import lessons, progress, store
from course_lib.progress_view import path_html

ROOT = Path(__file__).parents[1]
DONE = ("0.1", "1.1", "1.2")


@pytest.fixture
def some_done(tmp_path, monkeypatch):
    """A store in which three exercises have passed, and a kernel that runs in notebooks/."""
    monkeypatch.setenv("COURSE_STORE", str(tmp_path / "store.json"))
    monkeypatch.chdir(ROOT / "notebooks")
    data = store.load()
    attempts = {id: {"passed": True} for id in DONE}
    (tmp_path / "store.json").write_text(json.dumps({**data, "attempts": attempts}))
    return attempts


def test_outside_a_notebook_it_prints_lines(some_done, capsys):
    progress()
    text = capsys.readouterr().out
    assert "Lesson 01  ✓1.1 ✓1.2 ·1.3 ·1.4" in text
    assert "Next: 1.3" in text
    assert "<" not in text


def test_a_bar_for_each_exercise_and_those_that_passed_are_filled(some_done):
    page = path_html(some_done, ROOT / "exercises")
    body = page.split("</style>")[1]
    whole, rows = body.split("<ol>")
    assert rows.count("<li ") == len(lessons.all_lessons()) + 1, "and the hours"
    assert rows.count("<i class=") == len(lessons.all_exercises())
    assert rows.count('class="fac-passed"') == len(DONE)
    times = [e.minutes for e in lessons.all_exercises()]
    share = 100 * sum(lessons.find(id).minutes for id in DONE) / sum(times)
    assert whole.count('<i class="fac-passed"') == 1, "one bar for all of it"
    assert f"width:{share:.2f}%" in whole
    assert body.count('class="fac-next"') == body.count('class="fac-here"') == 1
    said = re.search(r"<br>(\d+) min of about (\d+) h are done: (\d+) of (\d+) exercises", whole)
    done = sum(lessons.find(id).minutes for id in DONE)
    assert int(said[1]) == done, "what fills the bar is said first"
    assert float(said[1]) / (60 * float(said[2])) == pytest.approx(share / 100, rel=0.05)
    assert [int(said[3]), int(said[4])] == [len(DONE), len(times)]
    assert "Each segment is one exercise, as long as its minutes. Press one" in whole
    look = re.search(r"i\.fac-next {([^}]*)}", page)[1]
    assert "outline" in look
    assert "background" not in look, "a ring: filled is done"
    station = re.search(r"\.fac-done > b {([^}]*)}", page)[1]
    assert station == re.search(r"i\.fac-passed {([^}]*)}", page)[1], "done has one sign"
    following = lessons.find("1.3")
    assert f"{following.label} {following.function}" in body
    assert f"about {following.minutes} min" in body


def test_every_bar_leads_to_the_heading_of_its_exercise(some_done):
    page = path_html(some_done, ROOT / "exercises")
    links = re.findall(r'<a href="([^"#]+)#([^"]*)" title="([^ ]+) ', page)
    assert [title for *_, title in links] == [
        e.label for lesson in lessons.in_order() for e in lesson.exercises
    ]
    for file, anchor, label in links:
        headings = [
            line.lstrip("# ").strip().replace(" ", "-")
            for cell in json.loads(Path(file).read_text(encoding="utf-8"))["cells"]
            for line in cell["source"]
            if line.startswith("#") and cell["cell_type"] == "markdown"
        ]
        assert unquote(anchor) in headings
        assert unquote(anchor).startswith(label.rstrip("ab"))


def test_without_the_notebooks_there_are_bars_without_links(some_done, tmp_path):
    page = path_html(some_done, tmp_path)
    assert "<a " not in page
    assert "Press one" not in page
    assert page.count("<i class=") == len(lessons.all_exercises()) + 1, "and that of the whole"


def test_at_the_end_it_says_so():
    attempts = {e.id: {"passed": True} for e in lessons.all_exercises()}
    page = path_html(attempts, ROOT / "exercises")
    assert "Everything is done." in page
    assert 'class="fac-next"' not in page


@pytest.mark.browser
@pytest.mark.parametrize(("width", "dark"), [(480, True), (1280, False)])
@pytest.mark.few(1)
def test_the_path_fits_the_page_and_tab_walks_along_it(some_done, browser, width, dark):
    scheme = "dark" if dark else "light"
    page = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 900}
    ).new_page()
    body = path_html(some_done, ROOT / "exercises")
    page.set_content(f"<!doctype html><meta name=color-scheme content='light dark'>{body}")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    reached = []
    for _ in range(4):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.title.split(' ')[0]"))
    assert reached == ["", "0.1", "1.1", "1.2"]
    sizes = page.locator("li a").evaluate_all("ns => ns.map(n => n.getBoundingClientRect().height)")
    assert min(sizes) >= 24
    page.context.close()


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_an_exercise_is_as_long_as_its_minutes_on_one_scale_of_hours(some_done, browser, width):
    """As areas of dots 4 minutes and 40 could not be compared, nor one lesson with another."""
    page = browser.new_context(viewport={"width": width, "height": 900}).new_page()
    page.set_content(f"<!doctype html>{path_html(some_done, ROOT / 'exercises')}")
    boxes = page.locator("li a").evaluate_all(
        "ns => ns.map(n => n.getBoundingClientRect()).map(b => [b.x, b.width])"
    )
    minutes = [e.minutes for lesson in lessons.in_order() for e in lesson.exercises]
    each = sum(wide for _, wide in boxes) / sum(minutes)
    assert [wide / each for _, wide in boxes] == pytest.approx(minutes, rel=0.02)
    assert max(x + wide for x, wide in boxes) <= width
    said = page.locator(".fac-path li:not(.fac-hours) > span > small").all_inner_texts()
    assert all(said), "a finished lesson has its minutes too"
    hours = page.locator(".fac-hours small").evaluate_all(
        "ns => ns.map(n => n.getBoundingClientRect().x)"
    )
    start = min(x for x, _ in boxes)
    assert [(x - start) / each for x in hours] == pytest.approx(
        [60 * k for k in range(len(hours))], abs=1
    )
    middles = "ns => ns.map(n => n.getBoundingClientRect()).map(b => b.top + b.height / 2)"
    for lesson in page.locator("li:not(.fac-hours)").all():
        places = lesson.locator("i").evaluate_all(middles)
        assert max(places) - min(places) < 1, "one row"
    page.context.close()


def test_a_file_that_is_no_progress_is_told_in_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_STORE", str(tmp_path / "store.json"))
    (tmp_path / "other.json").write_text('{"attempts": [1]}')
    progress.load(tmp_path / "other.json")
    assert "give the file that `export` wrote" in capsys.readouterr().out
    assert not (tmp_path / "store.json").exists()
