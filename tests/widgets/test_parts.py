"""Prose points at parts of the picture: a link to ``#fac-NAME`` marks that part of the widget."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from course_lib import widgets

ROOT = Path(__file__).parents[2]
INSTRUMENTS = set(widgets.__all__) - {"Predict", "Quiz"}
MAKERS = {name: getattr(widgets, name) for name in sorted(INSTRUMENTS)}
PARTS = {part for make in MAKERS.values() for part in make.parts}


def test_every_link_in_the_lessons_names_a_part():
    links = {
        (file.name, link)
        for file in (ROOT / "sources").rglob("*.py")
        for link in re.findall(r"\(#fac-([^)\s]+)\)", file.read_text(encoding="utf-8"))
    }
    assert links, "no lesson points at its picture"
    assert {link for _, link in links} <= PARTS, sorted(l for l in links if l[1] not in PARTS)


@pytest.mark.browser
@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.few(3)
def test_a_link_marks_its_part_and_no_other(mount, name):
    """By mouse and by keyboard, for every part that the class names, and for those only."""
    widget = MAKERS[name]()
    page = mount(widget, reduced=True)
    named = "ns => ns.map(n => n.dataset.facPart)"
    assert sorted(page.eval_on_selector_all("[data-fac-part]", named)) == sorted(widget.parts)
    page.evaluate(
        """parts => document.body.prepend(...parts.map((part) => {
             const link = document.createElement('a');
             link.href = '#fac-' + part;
             link.textContent = part + ' ';
             return link;
           }))""",
        list(widget.parts),
    )
    for number, part in enumerate(widget.parts):
        link = page.locator(f'a[href="#fac-{part}"]')
        link.press("Enter") if number % 2 else link.click()
        assert page.eval_on_selector_all(".fac-pointed", named) == [part]
        assert page.evaluate("document.activeElement.dataset.facPart") == part
        assert page.locator(".fac-pointed").evaluate(
            "n => (r => r.top < innerHeight && r.bottom > 0)(n.getBoundingClientRect())"
        )
    assert not page.url.endswith("#fac-" + widget.parts[-1]), "the page's own jump was not stopped"


@pytest.mark.browser
def test_a_link_reaches_into_the_frames_of_an_exported_page(blank, tmp_path):
    """Of two equal widgets the nearer one is marked; other links are left alone."""
    frame = widgets.TileStepper.by_hand([[1, 3], [2, 5]], [[10, 20], [30, 40]]).fallback_html()
    frame = frame.replace('loading="lazy"', "")
    file = tmp_path / "page.html"
    prose = '<p><a href="#fac-stepper-notes">notes</a> <a href="#below">below</a></p>'
    file.write_text(f"<!doctype html><body>{frame}{prose}{frame}<p id=below>", encoding="utf-8")
    page = blank()
    page.goto(file.as_uri())
    for number in (0, 1):
        page.frame_locator("iframe").nth(number).locator(".fac").wait_for()
    page.get_by_text("notes", exact=True).first.click()
    marked = [page.frame_locator("iframe").nth(i).locator(".fac-pointed").count() for i in (0, 1)]
    assert marked == [0, 1]
    page.get_by_text("below").click()
    assert page.url.endswith("#below")
