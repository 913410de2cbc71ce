"""One colour, one meaning, and small text that can be read in both themes."""

from __future__ import annotations

import re

import pytest
from conftest import ROOT
from style.contrast import contrast, mixed

from course_lib.style.palette import GROUNDS, HUES, INK, MEANINGS, hex_of

ON = [(theme, ground) for theme, grounds in GROUNDS.items() for ground in grounds]


@pytest.mark.parametrize(("theme", "ground"), ON)
def test_small_text_has_a_contrast_of_four_and_a_half(theme, ground):
    assert contrast(INK[theme], ground) >= 4.5
    for name, hue in HUES.items():
        text = mixed(hue.hex, INK[theme], hue.text_share)
        assert contrast(text, ground) >= 4.5, (name, theme, ground)


@pytest.mark.parametrize("ground", ["#ffffff", "#111111"])
def test_marks_without_an_edge_stand_out_on_both_pages(ground):
    for name in set(HUES) - {"sky", "yellow"}:  # these have an edge of ink
        assert contrast(hex_of(name), ground) >= 3, name


def test_tensors_and_methods_have_hues_of_their_own():
    """S is what naive attention pays for: it shares its hue."""
    hues = [MEANINGS[name].hue for name in ("naive", "flash", "q", "k", "v", "o")]
    assert len(set(hues)) == len(hues)
    assert MEANINGS["s"].hue == MEANINGS["naive"].hue
    hand = MEANINGS["hand"].hue
    assert hand not in {meaning.hue for name, meaning in MEANINGS.items() if name != "hand"}


def test_no_colour_is_written_anywhere_else():
    """Okabe and Ito's hues stand in the table and in what is generated from it, nowhere else."""
    written = re.compile("|".join(hue.hex for hue in HUES.values()), re.IGNORECASE)
    own = {"course_lib/style/palette.py"}
    own |= {f"course_lib/widgets/static/tokens.{kind}" for kind in ("css", "js")}
    files = [
        file
        for folder in ("course_lib", "sources", "benchmarks")
        for kind in ("py", "css", "js")
        for file in (ROOT / folder).rglob(f"*.{kind}")
    ]
    found = {str(f.relative_to(ROOT)) for f in files if written.search(f.read_text())}
    assert found - own == set()
    assert own <= found
