"""What all widgets share: package data, the stand-in without a kernel, the look of figures."""

from __future__ import annotations

import base64
import html
import re
from importlib.resources import files
from pathlib import Path

import ipywidgets
import pytest
import traitlets
from style.contrast import contrast

from course_lib import widgets
from course_lib.style import look
from course_lib.style.palette import hex_of
from course_lib.widgets.base import CourseWidget, standalone_page

EVERY = {
    "HBMAccountant": lambda: widgets.HBMAccountant(),
    "KVCacheCalculator": lambda: widgets.KVCacheCalculator(),
    "PageTable": lambda: widgets.PageTable(),
    "Predict": lambda: widgets.Predict("key", "How many?"),
    "Quiz": lambda: widgets.Quiz("Which?", [("a", True, "Because."), ("b", False, "No.")]),
    "Race": lambda: widgets.Race(),
    "RooflineChart": lambda: widgets.RooflineChart(),
    "ServerMemory": lambda: widgets.ServerMemory(),
    "SramBudget": lambda: widgets.SramBudget(),
    "TileSchedule": lambda: widgets.TileSchedule(mask="causal", step=6),
    "TileStepper": lambda: widgets.TileStepper(),
}
INSTRUMENTS = {name: make for name, make in EVERY.items() if name not in ("Predict", "Quiz")}


def test_every_exported_widget_is_tested_here():
    assert set(EVERY) == set(widgets.__all__)


@pytest.mark.parametrize("name", EVERY)
def test_a_widget_has_text_figure_and_a_module_that_asks_the_network_for_nothing(name):
    widget = EVERY[name]()
    assert isinstance(widget, CourseWidget)
    assert widget.to_table() == repr(widget)
    assert widget.to_figure().axes
    source = str(widget._esm) + str(widget._css)
    addresses = set(re.findall(r"(?:https?:)?//[\w.]+", source)) - {"http://www.w3.org"}
    assert not [address for address in addresses if "." in address]
    assert not re.search(r"^import |\bfetch\(|@import|url\((?!#)", source, re.MULTILINE)


@pytest.mark.parametrize("name", EVERY)
def test_jupyter_gets_widget_text_and_html(name):
    data, _ = EVERY[name]()._repr_mimebundle_()
    assert set(data) == {"application/vnd.jupyter.widget-view+json", "text/plain", "text/html"}


@pytest.mark.parametrize("name", INSTRUMENTS)
def test_the_stand_in_holds_a_sentence_and_the_text(name):
    """Where scripts are stripped, the frame and the fold still tell what there is to see."""
    widget = INSTRUMENTS[name]()
    page = widget.fallback_html()
    frame = html.unescape(re.search(r'srcdoc="([^"]*)"', page)[1])
    body = frame.split("<script")[0]
    assert "This picture moves where scripts may run" in body
    assert html.escape(widget.to_table()) in body
    assert html.escape(widget.to_table()) in page.split("</iframe>")[1]


def test_exports_can_carry_a_picture(monkeypatch):
    widget = widgets.KVCacheCalculator()
    assert "data:image/png" not in widget.fallback_html()
    monkeypatch.setenv("COURSE_PICTURES", "1")
    image = re.search(r'src="data:image/png;base64,([^"]+)"', widget.fallback_html())[1]
    assert base64.b64decode(image).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("name", "trait", "value"),
    [("HBMAccountant", "n", 4096), ("KVCacheCalculator", "n", 4096), ("PageTable", "page_size", 8),
     ("Race", "n", 1024),
     ("RooflineChart", "n", 4096), ("SramBudget", "d", 64), ("TileSchedule", "step", 3),
     ("TileStepper", "step", 3)],
)  # fmt: skip
def test_values_are_observed_and_linked_like_any_ipywidget(name, trait, value):
    """Both ways through `traitlets.link`, and inside a VBox."""
    widget = INSTRUMENTS[name]()
    slider = ipywidgets.IntSlider(min=0, max=2**20, value=getattr(widget, trait))
    seen: list[int] = []
    widget.observe(lambda change: seen.append(change["new"]), trait)
    traitlets.link((widget, trait), (slider, "value"))
    box = ipywidgets.VBox([slider, widget])
    slider.value = value
    assert getattr(widget, trait) == value
    setattr(widget, trait, value + 1)
    assert slider.value == value + 1
    assert seen == [value, value + 1]
    assert box.children[1] is widget


def test_figures_show_themselves_in_the_pages_ink():
    """Without pyplot, on any page: transparent, texts and legends in the ink of the page."""
    figure = widgets.RooflineChart().to_figure()
    assert figure.get_facecolor()[3] == 0
    page = figure._repr_html_()
    assert "fill: currentColor" in page
    assert look.PAGE_INK not in page


def test_state_cannot_end_the_script_that_carries_it():
    quiz = widgets.Quiz("</script><script>alert(1)</script>", [("<!--", True, "x")])
    assert standalone_page(quiz).count("<script") == 1


def test_show_wants_a_known_mode():
    with pytest.raises(ValueError, match="mode must be 'auto' or 'iframe'"):
        EVERY["TileStepper"]().show(mode="gif")


def test_static_files_are_package_data():
    static = files("course_lib.widgets") / "static"
    for module in ("accountant", "tile_schedule", "tile_stepper", "quiz"):
        assert (static / f"{module}.js").is_file()
        assert (static / f"{module}.css").is_file()


def as_hex(paint: str) -> str:
    """Return a computed colour, ``rgb(…)`` of 255 or mixed, ``color(srgb …)`` of 1, as hex."""
    scale = 255 if paint.startswith("color(srgb") else 1
    parts = re.findall(r"[\d.]+", paint)[:3]
    return "#" + "".join(f"{round(float(part) * scale):02x}" for part in parts)


@pytest.mark.browser
@pytest.mark.parametrize("name", INSTRUMENTS)
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.few(6)
def test_text_has_contrast_in_both_themes(mount, name, dark):
    """Every text against the ground that shows behind it: at least 4.5, as WCAG AA asks."""
    page = mount(INSTRUMENTS[name](), width=480, dark=dark)
    pairs = page.evaluate(
        """() => [...document.querySelectorAll('.fac *')]
          .filter((n) => [...n.childNodes].some((c) => c.nodeType === 3 && c.data.trim())
            && !n.disabled && !n.matches('.fac-hear, .fac-hear *, title')
            && !n.matches('.fac-on, .fac-kv-brick, .fac-tile-said')
            && !n.closest('.fac-on-s, .fac-on-k, .fac-on-v'))
          .map((n) => {
            let ground = n;
            const clear = (g) => getComputedStyle(g).backgroundColor === 'rgba(0, 0, 0, 0)';
            while (ground.parentElement && clear(ground)) ground = ground.parentElement;
             const flag = n.matches('.fac-race-ask')
               && n.parentNode.querySelector('.fac-race-grab');
             const on = n.matches('.fac-pages-plus-says, .fac-clock-letter, .fac-pages-own-chip');
             const pool = n.matches('.fac-server-who')
               && document.querySelector('.fac-server-used');
             const plate = on ? n.previousElementSibling : pool || flag;
             const paint = getComputedStyle(n); // some words stand on a cloth or on a button
            const ink = n.namespaceURI.endsWith('svg') ? paint.fill : paint.color;
            const under = plate ? getComputedStyle(plate).fill
              : getComputedStyle(ground).backgroundColor;
            return [ink, under, n.textContent.slice(0, 30)];
          })"""
    )
    assert len(pairs) > 10
    poor = [pair for pair in pairs if contrast(as_hex(pair[0]), as_hex(pair[1])) < 4.5]
    assert not poor
    assert contrast("#ffffff", hex_of("blue")) >= 4.5  # what .fac-on stands on
    for tile in "qkv":  # what .fac-kv-brick and .fac-tile-said stand on, in both themes
        assert contrast("#1c1c1c", hex_of(tile)) >= 4.5
    for tile in "skv":  # what .fac-on-s, .fac-on-k and .fac-on-v stand on
        assert contrast("#000000", hex_of(tile)) >= 4.5


@pytest.mark.browser
@pytest.mark.parametrize("name", INSTRUMENTS)
@pytest.mark.few(3)
def test_an_exported_page_is_alive_from_a_file_without_network(blank, name, tmp_path):
    widget = INSTRUMENTS[name]()
    file = Path(tmp_path) / "page.html"
    file.write_text(f"<!doctype html><body>{widget.fallback_html()}", encoding="utf-8")
    page = blank()
    page.goto(file.as_uri())
    frame = page.frame_locator("iframe")
    before = frame.locator(".fac").inner_text()
    if name.startswith("Tile"):
        frame.get_by_role("button", name="Next").click()
    else:
        frame.locator("input[type=range]").first.press("ArrowRight")
    page.wait_for_timeout(100)
    assert frame.locator(".fac").inner_text() != before
    height = page.locator("iframe").evaluate("n => n.clientHeight")
    wanted = frame.locator(".fac").evaluate("n => n.getBoundingClientRect().height")
    assert height >= wanted, "the frame cuts the widget off"


@pytest.mark.browser
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.few(4)
def test_presenter_mode_is_larger_and_still_fits(mount, name, check_page):
    widget = EVERY[name]()
    widget.presenter = True
    page = mount(widget, width=1920)
    assert page.locator(".fac").evaluate("n => parseFloat(getComputedStyle(n).fontSize)") >= 20
    check_page(page)
    page = mount(EVERY[name](), width=320, again=True)
    check_page(page)


@pytest.mark.browser
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.few(4)
def test_a_large_screen_has_larger_type_and_a_wider_sheet(mount, name, check_page):
    """At 1920 pixels a desk's type stood on a sheet of 1400, with nothing beside it."""
    page = mount(EVERY[name](), width=1920)
    size = "n => parseFloat(getComputedStyle(n).fontSize)"
    assert page.locator(".fac").evaluate(size) == 18
    pictures = page.locator(".fac-stage, .fac-race-over")
    for text in pictures.locator("text:not([class])").all()[:3]:
        assert text.evaluate(size) == 18, "what is drawn as what is written"
    if name not in ("Quiz", "Predict"):
        assert page.locator(".fac").bounding_box()["width"] > 0.9 * 1920
    check_page(page)


# Where everything stands, with what paints it.
LAYOUT = """() => [...document.querySelectorAll('.fac, .fac *')].map((n) => {
  const { x, y, width, height } = n.getBoundingClientRect(), paint = getComputedStyle(n);
  return [n.className.baseVal ?? n.className, x, y, width, height, paint.fill, paint.stroke,
          paint.strokeWidth, paint.strokeDasharray, paint.backgroundColor].join(' ');
})"""


@pytest.mark.browser
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.few(4)
def test_a_widget_looks_the_same_beside_all_others(mount, name):
    """A notebook holds the style sheets of all its widgets, in any order."""
    page = mount(EVERY[name]())
    page.wait_for_timeout(100)
    alone = page.evaluate(LAYOUT)
    for other in EVERY:
        page.add_style_tag(content=str(EVERY[other]()._css))
    assert page.evaluate(LAYOUT) == alone
