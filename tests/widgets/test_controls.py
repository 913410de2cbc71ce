"""Every control of every widget does something, by mouse and by keyboard, and Tab reaches it."""

from __future__ import annotations

from typing import Any

import pytest
from widgets.test_base import EVERY

from course_lib import widgets
from course_lib.widgets.base import standalone_page

pytestmark = pytest.mark.browser

# In the middle of their walk, where Previous, Next and Reset all have something to do.
WIDGETS = EVERY | {
    "Predict": lambda: widgets.Predict("key", "Which?", options=["a", "b", "c"]),
    "Predict, a number": EVERY["Predict"],
    "Quiz": lambda: widgets.Quiz("Which?", [("a", False, "No."), ("b", True, "Yes.")]),
    "Quiz, a number": lambda: widgets.Quiz("How many?", answer=7, explanation="Seven."),
    "Race": lambda: widgets.Race(flag=0.5),  # before, the flag is the one handle
    "TileStepper": lambda: middle_of(widgets.TileStepper()),
}


def middle_of(stepper: Any) -> Any:
    stepper.step = 9
    return stepper


CONTROLS = ".fac :is(button, input, select, summary):visible:enabled"

# All that a control may change: the model, what is typed, chosen and folded, and the words on show
# (not those for a screen reader, which come 0.4 s after the last change).
SNAPSHOT = """traits => JSON.stringify([
  traits.map((name) => facModel.get(name)),
  [...document.querySelectorAll('.fac :is(input, select)')].map((n) => [n.value, n.checked]),
  [...document.querySelectorAll('.fac details')].map((n) => n.open),
  [...document.querySelectorAll('.fac > :not(.fac-hear)')].map((n) => n.innerText),
])"""


def kind_of(control: Any) -> str:
    return control.evaluate("n => n.type && n.tagName === 'INPUT' ? n.type : n.localName")


def another_value(control: Any) -> str:
    """Return a value for a box that differs from its own and stays within every limit."""
    value = control.input_value()
    return str(int(value) // 2 if value.isdigit() and int(value) > 1 else 2)


def by_mouse(page: Any, control: Any) -> None:
    kind = kind_of(control)
    if kind == "range":
        control.scroll_into_view_if_needed()  # a mouse reaches what is seen
        box, place = control.bounding_box(), control.evaluate("n => n.value / n.max")
        page.mouse.click(
            box["x"] + (0.25 if place > 0.5 else 0.75) * box["width"],
            box["y"] + box["height"] / 2,
        )
    elif kind == "select":  # its list is the browser's own window, out of the page's reach
        values = control.locator("option").evaluate_all("ns => ns.map(n => n.value)")
        control.select_option(next(v for v in values if v and v != control.input_value()))
    elif kind in ("text", "number"):
        value = another_value(control)
        control.click(click_count=3)
        page.keyboard.type(value)
        page.mouse.click(1, 1)
    else:
        control.click()


def by_keyboard(page: Any, control: Any) -> None:
    kind = kind_of(control)
    control.focus()
    if kind == "range":
        at_the_end = control.evaluate("n => n.value === n.max")
        page.keyboard.press("ArrowLeft" if at_the_end else "ArrowRight")
    elif kind == "select":
        last = control.evaluate("n => n.selectedIndex === n.options.length - 1")
        page.keyboard.press("ArrowUp" if last else "ArrowDown")
    elif kind in ("text", "number"):
        value = another_value(control)
        control.select_text()
        page.keyboard.type(value)
        page.keyboard.press("Enter")
    else:
        page.keyboard.press("Space")


def prepare(page: Any, name: str) -> None:
    """Bring a question to where its button does something: with an answer chosen."""
    if "number" in name:
        page.locator("input").first.fill("3")
    elif name in ("Quiz", "Predict"):
        page.locator("input").first.check()


@pytest.mark.parametrize("name", WIDGETS)
@pytest.mark.few(4)
def test_every_control_by_mouse_and_by_keyboard(mount, name):
    widget = WIDGETS[name]()
    traits = [trait for trait in widget.module_state() if trait not in ("data", "limits")]
    page = mount(widget, reduced=True)
    prepare(page, name)
    n_controls = page.locator(CONTROLS).count()
    assert n_controls
    for number in range(n_controls):
        after = {}
        for act in (by_mouse, by_keyboard):
            page.set_content(standalone_page(widget))
            page.wait_for_selector(".fac")
            prepare(page, name)
            control = page.locator(CONTROLS).nth(number)
            if kind_of(control) == "radio" and control.is_checked():
                control = page.locator(CONTROLS).nth(number + 1)
            kind, label = kind_of(control), control.evaluate("n => n.outerHTML").split(">")[0]
            before = page.evaluate(SNAPSHOT, traits)
            act(page, control)
            after[act] = page.evaluate(SNAPSHOT, traits)
            assert after[act] != before, f"{act.__name__} changes nothing: {label}"
        if kind not in ("range", "select", "text", "number"):
            assert after[by_mouse] == after[by_keyboard], label


@pytest.mark.parametrize("name", WIDGETS)
@pytest.mark.few(4)
def test_tab_reaches_every_control(mount, name):
    """One stop for each, in the order of the page; a group of radio buttons is one stop."""
    page = mount(WIDGETS[name](), reduced=True)
    prepare(page, name)
    wanted = page.locator(CONTROLS).evaluate_all(
        """ns => ns.map((n, i) => (n.dataset.number = i, n))
             .filter((n) => n.type !== 'radio' || n.checked).map((n) => n.dataset.number)"""
    )
    reached = []
    for _ in range(2 * len(wanted) + 5):  # round the page twice: the first round may begin inside
        page.keyboard.press("Tab")
        number = page.evaluate("document.activeElement.dataset.number ?? null")
        if number is not None:
            reached.append(number)
    first = reached.index(wanted[0])
    assert reached[first : first + len(wanted)] == wanted


@pytest.mark.parametrize("name", ["HBMAccountant", "TileStepper"])
def test_the_kernel_is_told_before_its_echo_of_an_older_value_can_come(mount, name):
    """An echo is a task of its own; what is not yet on its way by then would be overwritten."""
    page = mount(WIDGETS[name](), reduced=True)
    order = page.evaluate(
        """() => new Promise((done) => {
             const order = [], slider = document.querySelector('.fac input[type=range]');
             facModel.save_changes = () => order.push('told');
             setTimeout(() => { order.push('echo'); done(order); });
             slider.value = Number(slider.value) + 1;
             slider.dispatchEvent(new Event('input', { bubbles: true }));
           })"""
    )
    assert order == ["told", "echo"]
