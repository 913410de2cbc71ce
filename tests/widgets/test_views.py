"""What holds for every widget on the page: two views agree, light and dark, the front of a room."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from widgets.test_base import EVERY
from widgets.test_controls import WIDGETS

from course_lib import widgets

pytestmark = pytest.mark.browser

SECOND = """() => {
    const el = document.createElement('div');
    document.body.append(el);
    facRender(el);
}"""
# What a view shows (without what a screen reader hears), what is typed into it and chosen.
SHOWN = """() => [...document.querySelectorAll('.fac')].map((view) => JSON.stringify([
    [...view.children].filter((n) => !n.matches('.fac-hear')).map((n) => n.innerText),
    [...view.querySelectorAll('input, select')]
      .map((n) => n.type === 'radio' ? n.checked : n.value),
]))"""
ROOM = 940  # of 1080 pixels: JupyterLab's bars take the rest
WHOLE_SCREEN = {"Race": 1080}  # fits a page of its own, or JupyterLab's presentation mode


def use(page: Any, name: str) -> None:
    """Use the first view as a person would."""
    first = page.locator(".fac").first
    if name in ("Quiz", "Predict"):
        first.locator("input").last.check()
        if name == "Predict":  # a quiz is checked by the press, and keeps no button
            first.get_by_role("button").click()
    elif name.endswith("a number"):
        first.locator("input[type=text]").fill("3")
        first.locator("input[type=text]").press("Enter")
    elif name.startswith("Tile"):
        first.get_by_role("button", name="Next").click()
    else:
        first.locator("input[type=range]").first.press("ArrowRight")


@pytest.mark.parametrize("name", WIDGETS)
@pytest.mark.few(4)
def test_two_views_of_one_widget_show_the_same(mount, name):
    page = mount(WIDGETS[name]())
    page.evaluate(SECOND)
    before = page.evaluate(SHOWN)
    use(page, name)
    first, second = page.evaluate(SHOWN)
    assert first != before[0]
    assert first == second
    page.evaluate(SECOND)  # opened later
    assert len(set(page.evaluate(SHOWN))) == 1


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.few(4)
def test_the_front_of_a_room_sees_it_without_scrolling(mount, name):
    widget = EVERY[name]()
    widget.presenter = True
    page = mount(widget, width=1920)
    height = page.evaluate("() => document.querySelector('.fac').getBoundingClientRect().height")
    assert height <= WHOLE_SCREEN.get(name, ROOM)


def brightest_corner(shot: bytes) -> float:
    """Return the median brightness, 0 to 1, of the empty right end of a slider's track."""
    from matplotlib.image import imread

    pixels = imread(io.BytesIO(shot))[..., :3].mean(axis=2)
    middle = pixels[pixels.shape[0] // 2 - 1 : pixels.shape[0] // 2 + 1, -30:-8]
    return float(np.median(middle))


def test_the_track_of_a_slider_does_not_glare_in_the_dark(mount):
    for dark, least, most in ((True, 0.0, 0.4), (False, 0.6, 1.0)):
        page = mount(widgets.SramBudget(n=1), dark=dark, again=True)
        slider = page.locator("input[type=range]").first
        slider.press("Home")
        assert least < brightest_corner(slider.screenshot()) < most


@pytest.mark.parametrize("system", ["light", "dark"])
def test_a_frame_wears_the_theme_of_its_page(blank, system):
    """A light page on a dark system holds a light widget, and follows when the page changes."""
    page = blank(dark=system == "dark")
    frame = widgets.SramBudget().fallback_html(picture=False)
    page.set_content(f"<!doctype html><body style='background: white'>{frame}</body>")
    inside = page.frame_locator("iframe").locator("body")
    inside.locator(".fac").wait_for()
    look = """n => [getComputedStyle(n).backgroundColor,
        getComputedStyle(n.querySelector('.fac')).color]"""
    assert inside.evaluate(look) == ["rgb(255, 255, 255)", "rgb(28, 28, 28)"]
    page.evaluate("() => { document.body.style.background = '#111111'; }")
    page.wait_for_timeout(100)
    assert inside.evaluate(look) == ["rgb(17, 17, 17)", "rgb(236, 236, 236)"]


PICTURE_FIRST = (
    "KVCacheCalculator", "PageTable", "RooflineChart", "ServerMemory", "SramBudget", "TileSchedule",
    "TileStepper",
)  # fmt: skip
FIRST_MARK = """() => {
  const marks = [...document.querySelectorAll('.fac-stage :is(rect, path, circle)')]
    .filter((n) => !n.closest('defs')).map((n) => n.getBoundingClientRect().top);
  return Math.min(...marks) - document.querySelector('.fac').getBoundingClientRect().top;
}"""


@pytest.mark.parametrize(("width", "most"), [(480, 200), (1280, 120)])
@pytest.mark.parametrize("name", PICTURE_FIRST)
@pytest.mark.few(5)
def test_the_picture_comes_first_and_at_most_three_controls_follow(mount, name, width, most):
    page = mount(EVERY[name](), width=width)
    assert page.evaluate(FIRST_MARK) <= most
    named = "ns => [...new Set(ns.map(n => (n.ariaLabel || n.labels[0].textContent).trim()))]"
    assert len(page.locator(".fac :is(input, select):visible").evaluate_all(named)) <= 3
