"""The books that every ledger keeps, and how they are shown."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.accounting.format import bytes_binary, bytes_decimal
from course_lib.accounting.ledger import Ledger
from course_lib.style.palette import hex_of


@pytest.fixture
def ledger():
    books = Ledger()
    books.note_read("q", 2_000_000)
    books.note_read("k", 40_000_000)
    books.note_read("k", 4_000_000)
    books.note_written("o <b>", 2_500_000)
    books.flops = 3_000_000_000
    return books


def test_untouched_names_count_zero_and_are_not_added(ledger):
    assert ledger.read["nobody"] == ledger.written["k"] == 0
    assert set(ledger.read) == {"q", "k"}
    assert set(ledger.written) == {"o <b>"}


names = st.sampled_from("qkvo")


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.booleans(), names, st.integers(0, 10**9))))
def test_total_is_everything_that_was_noted(notes):
    books = Ledger()
    for is_read, name, n in notes:
        (books.note_read if is_read else books.note_written)(name, n)
    assert books.total == sum(n for _, _, n in notes)
    assert books.total == sum(read + written for _, read, written in books.rows())


def test_table_is_sorted_aligned_and_totalled(ledger):
    lines = ledger.table().splitlines()
    assert [line.split()[0] for line in lines[2:5]] == ["k", "o", "q"]  # the dearest first
    assert lines[2].split() == ["k", "44.000", "0.000", "44.000"]
    assert lines[6].split() == ["total", "46.000", "2.500", "48.500"]
    assert len({len(line) for line in lines[:7]}) == 1
    assert lines[7] == "3 GFLOP, 61.9 FLOP/byte"


def test_small_books_show_every_byte():
    books = Ledger()
    books.note_read("x", 1)
    assert books.table().splitlines()[2].split() == ["x", "0.000001", "0.000000", "0.000001"]


def test_empty_books_have_a_table_and_a_figure():
    assert Ledger().table().splitlines()[-1].split() == ["total", *["0.000000"] * 3]
    assert Ledger().to_figure().axes
    assert Ledger().intensity == 0


def test_html_is_escaped(ledger):
    assert "o &lt;b&gt;" in ledger._repr_html_()
    assert "<b>" not in ledger._repr_html_()


def test_figure_shows_the_numbers(ledger):
    axes = ledger.to_figure().axes[0]
    widths = sorted(patch.get_width() for patch in axes.patches)
    assert widths == pytest.approx([0, 0, 0, 2, 2.5, 44])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["k", "o <b>", "q"]
    from matplotlib.colors import to_rgba

    read, written = axes.containers
    tensors = [to_rgba(hex_of(name)) for name in ("k", "other", "q")]
    assert [bar.get_facecolor() for bar in read] == tensors
    assert [bar.get_edgecolor() for bar in written] == tensors
    assert not any(bar.get_facecolor()[3] for bar in written), "what is written is hatched"
    assert {text.get_text() for text in axes.texts} >= {"44 read", "2.5 written"}


def test_keeping_books_loads_neither_torch_nor_matplotlib():
    code = (
        "import sys, course_lib.accounting.ledger, course_lib.accounting.traffic;"
        "sys.exit(any(m in sys.modules for m in ('torch', 'triton', 'numpy', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("n", "decimal", "binary"),
    [
        (0, "0 B", "0 B"),
        (999, "999 B", "999 B"),
        (1000, "1 kB", "1000 B"),
        (1024, "1.024 kB", "1 KiB"),
        (161 * 1024, "164.9 kB", "161 KiB"),
        (17_448_304_640, "17.45 GB", "16.25 GiB"),
        (999_999, "1 MB", "976.6 KiB"),
        (2**20 - 1, "1.049 MB", "1 MiB"),
    ],
)
def test_bytes_as_people_read_them(n, decimal, binary):
    assert (bytes_decimal(n), bytes_binary(n)) == (decimal, binary)
