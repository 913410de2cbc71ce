"""A table in HTML with bars, and as aligned text."""

from __future__ import annotations

import re

from course_lib.style.palette import hex_of
from course_lib.style.table import Table

ROWS = [("q", 2.0, "a <b>"), ("k", 8.0, "c"), ("all", 10.0, "")]
TABLE = Table(("tensor", "MB", "why"), ROWS, {"MB": ".1f"}, {"MB": "other"}, {"k": "k"}, total=True)


def test_text_is_aligned_with_a_line_above_the_sum():
    lines = str(TABLE).splitlines()
    assert lines[0] == "tensor    MB  why"
    assert lines[2] == "q        2.0  a <b>"
    assert lines[4] == lines[1] == "-" * len(lines[2])
    assert lines[5] == "all     10.0"


def test_bars_are_shares_of_the_largest_and_the_sum_has_none():
    page = TABLE._repr_html_()
    assert page.count("<i style") == 2
    assert f'<i style="width:25.00%;background:{hex_of("other")}">' in page
    assert f'<i style="width:100.00%;background:{hex_of("k")}">' in page


def test_words_are_escaped_and_empty_cells_stay_empty():
    page = Table(("a", "b"), [("<i>", None)], finding="x < y", note="<n>")._repr_html_()
    assert "&lt;i&gt;" in page
    assert "x &lt; y" in page
    assert "<small>&lt;n&gt;</small>" in page
    assert "<td></td>" in page


def test_columns_that_print_alike_share_a_scale_and_nothing_has_no_bar():
    columns = ("n", "naive MB", "fused MB", "share")
    formats = {"naive MB": ".1f", "fused MB": ".1f", "share": ".0%"}
    bars = dict.fromkeys(columns[1:], "other")
    page = Table(columns, [(1, 100.0, 1.0, 0.01), (2, 50.0, 0.0, 0.0)], formats, bars)._repr_html_()
    widths = re.findall(r"width:([\d.]+)%", page)
    assert widths == ["100.00", "1.00", "100.00", "50.00"]
