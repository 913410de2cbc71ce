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


def test_a_dot_for_each_exercise_and_those_that_passed_are_filled(some_done):
    page = path_html(some_done, ROOT / "exercises")
    body = page.split("</style>")[1]
    assert body.count("<li ") == len(lessons.all_lessons())
    assert body.count("<i class=") == len(lessons.all_exercises())
    assert body.count('class="fac-passed"') == len(DONE)
    assert body.count('class="fac-next"') == body.count('class="fac-here"') == 1
    assert f"3 of {len(lessons.all_exercises())} exercises are done, a dot each:" in body
    look = re.search(r"i\.fac-next {([^}]*)}", page)[1]
    assert "border" in look
    assert "background" not in look, "a ring: filled is done"
    following = lessons.find("1.3")
    assert f"{following.label} {following.function}" in body
    assert f"about {following.minutes} min" in body


def test_every_dot_leads_to_the_heading_of_its_exercise(some_done):
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


def test_without_the_notebooks_there_are_dots_without_links(some_done, tmp_path):
    page = path_html(some_done, tmp_path)
    assert "<a " not in page
    assert page.count("<i class=") == len(lessons.all_exercises())


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
def test_minutes_are_the_area_of_a_dot_in_one_row_and_a_rule_leads_there(some_done, browser, width):
    """Equal dots stood for 4 minutes and for 40, and then their minutes were a list below."""
    page = browser.new_context(viewport={"width": width, "height": 900}).new_page()
    page.set_content(f"<!doctype html>{path_html(some_done, ROOT / 'exercises')}")
    dots = page.locator("li i").evaluate_all(
        "ns => ns.map(n => n.getBoundingClientRect()).map(b => [b.width * b.height, b.right])"
    )
    minutes = [e.minutes for lesson in lessons.in_order() for e in lesson.exercises]
    share = sum(area for area, _ in dots) / sum(minutes)
    assert [area / share for area, _ in dots] == pytest.approx(minutes, rel=0.05)
    assert max(right for _, right in dots) <= width
    middles = "ns => ns.map(n => n.getBoundingClientRect()).map(b => b.top + b.height / 2)"
    for lesson in page.locator("li").all():
        places = lesson.locator("i").evaluate_all(middles)
        assert max(places) - min(places) < 1, "one row"
    assert page.locator("li em").first.is_visible() == (width == 1280)
    page.context.close()


def test_the_key_has_dots_of_the_scale_of_those_below(some_done):
    """*The larger, the longer* named no minutes."""
    body = progress._repr_html_().split("</style>")[1]
    said, way = body.split("<ol")
    of = r'width:([\d.]+)px;height:[\d.]+px"></i>(\d+)\xa0min'
    keys = [(float(wide), int(minutes)) for wide, minutes in re.findall(of, said)]
    assert [minutes for _, minutes in keys] == [10, 40]
    dots = [float(wide) for wide in re.findall(r"width:([\d.]+)px", way)]
    times = [exercise.minutes for lesson in lessons.in_order() for exercise in lesson.exercises]
    for wide, minutes in keys + list(zip(dots, times, strict=True)):
        assert wide**2 / minutes == pytest.approx(3.6**2, rel=0.05)


@pytest.mark.browser
def test_the_path_goes_on_from_its_first_column_to_the_second(some_done, browser):
    """Between 6 and 7 it broke off."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_content(f"<body>{progress._repr_html_()}</body>")
    ends = page.evaluate(
        """() => { const turn = document.querySelector('.fac-turn');
          const at = (n, part) => { const b = n.getBoundingClientRect();
            const s = getComputedStyle(n, part), px = (x) => parseFloat(x);
            return [b.left + px(s.left), b.top + px(s.top), px(s.width), px(s.height)]; };
          return [at(turn, '::before'), at(turn, '::after'), at(turn.parentNode, '::after'),
            at(turn.nextElementSibling, '::after'), at(turn.nextElementSibling, '::before')]; }"""
    )
    six, low, gutter, high, seven = ends
    assert six[1] + six[3] == pytest.approx(low[1] + low[3], abs=1), "down from 6"
    assert low[0] == pytest.approx(six[0], abs=1)
    assert low[0] + low[2] == pytest.approx(gutter[0], abs=4), "to the gutter"
    assert gutter[1] + gutter[3] == pytest.approx(low[1] + low[3], abs=1), "up in it"
    assert gutter[1] == pytest.approx(high[1], abs=1)
    assert high[0] == pytest.approx(gutter[0], abs=1)
    assert high[0] + high[2] == pytest.approx(seven[0] + 3, abs=1), "to 7"
    assert seven[1] == pytest.approx(high[1], abs=1)
    page.close()


def test_a_file_that_is_no_progress_is_told_in_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_STORE", str(tmp_path / "store.json"))
    (tmp_path / "other.json").write_text('{"attempts": [1]}')
    progress.load(tmp_path / "other.json")
    assert "give the file that `export` wrote" in capsys.readouterr().out
    assert not (tmp_path / "store.json").exists()
