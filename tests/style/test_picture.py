"""A figure follows the page: its ink, its coloured text, its width; and it has a name."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from style.contrast import contrast, mixed

from course_lib.style import look, picture
from course_lib.style.axes import label_ends, length_axis, short_count, spread
from course_lib.style.palette import GROUNDS, INK, hex_of, text_share


@look.styled
def small():
    figure, axes = picture.new_figure(figsize=(7, 3))
    axes.plot([64, 4096], [1, 2], color=hex_of("naive"))
    axes.barh([1], [64], facecolor="none", edgecolor=hex_of("s"), hatch="//")
    length_axis(axes, [64, 512, 4096, 32768])
    label_ends(axes, [("naive", 4096, 2, "naive"), ("flash", 4096, 2, "flash")])
    return figure.says("Half as <much>", "H100", "A line that rises.")


def drawings(page: str) -> list[ET.Element]:
    return [ET.fromstring(text) for text in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def test_ink_is_the_pages_and_coloured_text_is_mixed_into_it():
    page = small()._repr_html_()
    assert look.PAGE_INK not in page
    assert "fill: currentColor" in page
    for name in ("naive", "flash"):
        share = f"{text_share(name):.0%}"
        assert f"fill: color-mix(in srgb, {hex_of(name)} {share}, currentColor)" in page
        assert look.text_colour(name) == mixed(hex_of(name), look.PAGE_INK, text_share(name))
    assert "background" not in "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL))


def test_every_drawing_has_a_name_and_text_that_stays_text():
    wide, narrow = drawings(small()._repr_html_())
    for svg in (wide, narrow):
        assert (svg.get("role"), svg.get("aria-label")) == ("img", "A line that rises.")
        words = {text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")}
        assert {"64", "512", "4k", "naive"} <= words
    assert int(wide.get("width")) == 672, "as wide as the column of prose"
    assert int(narrow.get("width")) < 480


def test_finding_and_note_are_escaped_and_stand_around_the_drawing():
    page = small()._repr_html_()
    assert "<figcaption>Half as &lt;much&gt;</figcaption>" in page
    assert page.index("figcaption>Half") < page.index("<svg") < page.index("<small>H100</small>")
    assert repr(small()) == "[figure: Half as <much>. H100]"


def test_show_displays_the_same(monkeypatch):
    seen = []
    monkeypatch.setattr("IPython.display.display", seen.append)
    picture.show(small(), "A finding", "a device")
    assert "<figcaption>A finding</figcaption>" in seen[0].data
    assert 'aria-label="A finding. a device"' in seen[0].data


def test_two_figures_on_a_page_do_not_borrow_each_others_clips():
    first, second = (small().says(words)._repr_html_() for words in ("one", "two"))
    ids = [set(re.findall(r' id="([^"]+)"', page)) for page in (first, second)]
    assert ids[0]
    assert not ids[0] & ids[1]
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', first))
    assert used <= ids[0]


def test_a_figure_keeps_its_size():
    figure = small()
    figure._repr_html_()
    assert tuple(figure.get_size_inches()) == (7, 3)


@pytest.mark.parametrize(
    ("n", "words"), [(64, "64"), (512, "512"), (4096, "4k"), (32768, "32k"), (2**20, "1M")]
)
def test_lengths_as_people_say_them(n, words):
    assert short_count(n) == words


def test_labels_that_would_overlap_are_pushed_apart_and_keep_their_order():
    assert spread([0.1, 0.9], [0.1, 0.1]) == [0.1, 0.9]
    apart = spread([0.5, 0.52, 0.5], [0.1, 0.1, 0.2])
    edges = sorted((y - h / 2, y + h / 2) for y, h in zip(apart, [0.1, 0.1, 0.2], strict=True))
    assert all(a[1] <= b[0] + 1e-9 for a, b in pairwise(edges))
    assert max(apart) == apart[1], "the highest stays the highest"


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.few(1)
def test_the_ink_changes_with_the_page_while_it_is_open(browser, theme):
    """The text of a figure has a contrast of 4.5 with the page, whatever theme it turns to."""
    page = browser.new_page()
    page.set_content(f"<body>{small()._repr_html_()}")
    ground = GROUNDS[theme][0]
    page.evaluate(
        "([ink, ground]) => { document.body.style.color = ink;"
        " document.body.style.background = ground; }", [INK[theme], ground],
    )  # fmt: skip
    fills = page.evaluate(
        """() => [...document.querySelectorAll('svg.fac-wide text')].map((n) => {
          const c = document.createElement('canvas').getContext('2d');
          c.fillStyle = getComputedStyle(n).fill; c.fillRect(0, 0, 1, 1);
          return [...c.getImageData(0, 0, 1, 1).data].slice(0, 3); })"""
    )
    assert len(fills) > 5
    for rgb in fills:
        assert contrast("#" + "".join(f"{x:02x}" for x in rgb), ground) >= 4.5
    page.set_viewport_size({"width": 480, "height": 800})
    assert page.locator("svg.fac-narrow").is_visible()
    assert not page.locator("svg.fac-wide").is_visible()
    page.close()
