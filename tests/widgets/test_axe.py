"""axe-core finds nothing serious in any widget: light and dark, narrow, moved, refused."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest
from widgets.test_base import EVERY

from course_lib import widgets

pytestmark = pytest.mark.browser
# axe.min.js comes with the package, so nothing is fetched when the test runs
SEVERE = {"serious", "critical"}
# the page around a widget is a notebook's business: headings, landmarks
RULES = {"page-has-heading-one": {"enabled": False}, "region": {"enabled": False}}


@pytest.fixture(scope="session")
def axe() -> str:
    pytest.importorskip("axe_playwright_python", reason="pip install axe-playwright-python")
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


def severe(page: Any, axe: str) -> list[str]:
    """Return what axe calls serious or critical, with the elements; it must have run."""
    if not page.evaluate("() => 'axe' in globalThis"):
        page.evaluate(axe)
    found = page.evaluate("rules => axe.run(document, { rules })", RULES)
    assert len(found["passes"]) > 5, "axe tested nothing"
    return [
        f"{v['id']} ({v['impact']}): {[node['html'][:160] for node in v['nodes']]}"
        for v in found["violations"]
        if v["impact"] in SEVERE
    ]


LOOKS = [f"{look}-{name}" for look in ("light", "dark") for name in EVERY]


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.few(4)
def test_nothing_serious(mount, axe, look):
    """At rest at 480 px, and again after a move (a tile in SRAM, an answer given)."""
    dark, name = look.startswith("dark"), look.partition("-")[2]
    page = mount(EVERY[name](), width=480, dark=dark, reduced=True)
    assert severe(page, axe) == []
    if name.startswith("Tile"):
        for _ in range(4):
            page.get_by_role("button", name="Next").click()
    elif name in ("Quiz", "Predict"):
        choices = page.locator("input")
        choices.first.check() if name == "Quiz" else choices.first.fill("3")
        if name != "Quiz":  # which is checked by the press
            page.get_by_role("button").first.click()
    else:
        page.locator("input[type=range]").first.press("ArrowRight")
    assert severe(page, axe) == []


def test_nothing_serious_in_refusals_mistakes_and_marks(mount, axe):
    """The states that are not there at the start: a refused value, a mistake at the end, extras."""
    accountant = widgets.HBMAccountant(preset="The counters' case (H = 8)")
    accountant.add_measurement({"label": "GPU, ncu", "bytes": 7e7, "n": 8192})
    page = mount(accountant)
    page.locator("summary").first.click()  # what is unfolded draws anew, and a refusal goes
    page.locator("input[type=text]").first.fill("0")
    page.locator("input[type=text]").first.press("Enter")
    assert page.get_by_text("A whole number from 1").is_visible()
    assert severe(page, axe) == []

    stepper = widgets.TileStepper.by_hand([[1, 3], [2, 5]], [[10, 20], [30, 40]])
    stepper.mistake, stepper.step = "no_rescale_o", stepper.last_step
    page = mount(stepper, dark=True)
    assert page.get_by_text("impossible for an average").is_visible()
    assert severe(page, axe) == []


def test_axe_would_complain(mount, axe):
    """The test can fail: a button without a name is found."""
    page = mount(widgets.SramBudget())
    page.evaluate("document.body.append(document.createElement('button'))")
    assert any("button-name" in line for line in severe(page, axe))
