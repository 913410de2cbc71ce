"""Every handle says beside itself what it changes and how much that is, until it was dragged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from course_lib import widgets

HANDLED: dict[str, Callable[[], Any]] = {
    "Race": lambda: widgets.Race(1024, 128, 128, 128, flag=0.5),
    "Race-caches": lambda: widgets.Race(1024, 128, 128, 128, flag=0.5, caches=True),
    "HBMAccountant": lambda: widgets.HBMAccountant(),
    "HBMAccountant-small": lambda: widgets.HBMAccountant(n=16),
    "RooflineChart": lambda: widgets.RooflineChart(),
    "RooflineChart-dial": lambda: widgets.RooflineChart(view="dial"),
    "TileSchedule": lambda: widgets.TileSchedule(guess=2),  # which is asked first
    "SramBudget": lambda: widgets.SramBudget(),
}
"""Instruments whose picture is the handle."""


def says(page: Any, handle: str) -> str:
    return page.locator(f'text[data-names="{handle}"]').text_content()


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.parametrize("name", list(HANDLED))
@pytest.mark.few(6)
def test_a_handle_says_its_quantity_and_value_until_it_was_dragged(mount, name, width):
    page = mount(HANDLED[name](), width=width, height=1300, reduced=True)
    knobs = page.locator("circle.fac-knob:visible")
    handles = knobs.evaluate_all("nodes => nodes.map((n) => n.dataset.handle)")
    assert handles, "an instrument without a handle is not named here"
    asked = page.locator(".fac svg:visible").evaluate_all("nodes => nodes.map(n => n.textContent)")
    assert any("drag:" in text for text in asked)
    for handle, knob in zip(handles, knobs.all(), strict=True):
        assert any(letter.isdigit() for letter in says(page, handle)), (handle, says(page, handle))
        box = knob.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.down()
        page.mouse.up()
        assert "drag" not in says(page, handle), handle
        assert any(letter.isdigit() for letter in says(page, handle)), "its value stays"


@pytest.mark.browser
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("TileSchedule", {"mask": "causal"}),
        ("TileStepper", {"step": 5}),
        ("ServerMemory", {"every": 10}),
    ],
)
def test_what_is_unfolded_is_never_old(mount, name, change):
    """A fold tells that it opened only a moment later; till then it showed what it first drew."""
    page = mount(getattr(widgets, name)(), reduced=True)
    read = """async (change) => {
      const fold = document.querySelector("details"), first = fold.textContent;
      for (const [trait, value] of Object.entries(change)) facModel.set(trait, value);
      await null; // changes are drawn together
      fold.firstChild.click();
      const now = fold.textContent;
      await new Promise((done) => setTimeout(done, 50));
      return [first, now, fold.textContent];
    }"""
    first, now, later = page.evaluate(read, change)
    assert first != now == later
