"""Bytes, shares and ratios in the lessons' prose are computed here, or say where they come from.

What only a clock gives stands in `test_numbers`; these are the other numbers with a unit.
"""

from __future__ import annotations

import re
from math import exp

import pytest
from course.test_numbers import LESSONS, SAYS, prose

from course_lib.accounting.hardware import MEMORY_HIERARCHY, gpu
from course_lib.accounting.sram import tile_bytes
from course_lib.accounting.traffic import eager_six_trips, flash_compulsory, flash_tile_loads
from course_lib.figures.overlap import product_cycles

WITH_UNIT = re.compile(
    r"(?<![\w.{])\d[\d.,]*(?: (?:to|and|or) \d[\d.,]*)? "
    r"(?:[kKMG]i?B(?!/s)|%(?! \d)|times (?:less|fewer|more|as(?! fast)|the|what))(?!\w)"
)
K, M, G = 2**10, 2**20, 2**30
PLACES = {level.name: level.n_bytes for level in MEMORY_HIERARCHY["H100"]}
LONGEST = {"n": 131072, "d": 128, "heads": 8}


def square(n: int, heads: int = 1) -> int:
    """Return the bytes of S in half precision."""
    return heads * n * n * 2


def k_and_v(n: int, heads: int) -> float:
    """Return the MiB of K and V, d = 128, half precision."""
    return 2 * heads * n * 128 * 2 / M


COMPUTED = [  # lesson, a piece of its prose, the numbers in it
    ("01", "{:.0f} % and {:.0f} % larger", 100 * (M / 1e6 - 1), 100 * (G / 1e9 - 1)),
    ("01", "S and P are {:.0f} GiB each", square(8192, 8) / G),
    ("01", "S takes {:.0f} MiB at N = 4096", square(4096) / M),
    ("01", "N is {} times as large, so S is {} times as large", 4, 4**2),
    ("02", "bytes = {:.0f} MiB, for one head", square(8192) / M),
    ("02", "are {:.0f}, {:.0f} and {:.0f} MiB",
     *(PLACES[name] / M for name in ("registers", "shared memory", "L2"))),
    ("02", "{:.0f} times fewer bytes", 1.5 * 8192 / 128 + 1),
    ("02", "+ 1 = {:.0f} times the least", 1.5 * 8192 / 128 + 1),
    ("02", "its bytes grow more than a {}", {1: "hundredfold"}.get(
        eager_six_trips.bytes(n=1024, d=128) // eager_six_trips.bytes(n=64, d=128) // 100)),
    ("02", "matrices of {:.0f} MiB (8 heads)", square(8192, 8) / M),
    ("02", "8 heads S is {:.0f} MiB", square(1024, 8) / M),
    ("04", "2 bytes = {:.0f} MiB. With", 4096 * 128 * 2 / M),
    ("04", "{} times: {:.0f} MiB. So is V. Q and O are {:.0f} MiB each. Together {:.0f} MiB",
     4096 // 128, 32 * 4096 * 128 * 2 / M, 4096 * 128 * 2 / M,
     flash_tile_loads.bytes(n=4096, d=128, block_q=128) / M),
    ("04", "2 bytes = {:.0f} KiB each", 128 * 128 * 2 / K),
    ("04", "128 · 128 · 2 = {:.0f} KiB", 128 * 128 * 2 / K),
    ("04", "(*statistics*): {:.0f} KiB. Together {:.0f} KiB", 128 * 2 * 4 / K,
     tile_bytes(128, 128, 128)["total"] / K),
    ("04", "512 bytes, {:.0f} KiB. The rest takes {:.0f} KiB", (2 * 128 * 2 + 256 * 2) / K,
     (2 * 256 * 128 * 2 + 256 * 2 * 4) / K),
    ("04", "{:.0f} MiB on an H100, shared", PLACES["L2"] / M),
    ("04", "ask for {:.0f} GB. The compulsory bytes are {:.2f} GB",
     flash_tile_loads.bytes(block_q=128, **LONGEST) / 1e9, flash_compulsory.bytes(**LONGEST) / 1e9),
    ("04", "of all heads are {:.0f} MiB", k_and_v(8192, 8)),
    ("04", "K and V are {:.0f} MiB. Half", k_and_v(131072, 8)),
    ("04", "185 would need {:.0f} KiB", (1024 * 185 + 2 * 185**2) / K),
    ("04", "one desk {} KiB", gpu("A100").shared_kib_per_block),
    ("04", "an H100's: {} KiB", gpu("H100").shared_kib_per_block),
    ("05", "takes {:.0f} % of the weight", 100 / (1 + sum(exp(s) for s in (-3, -1, -2)))),
    ("07", "the {:.0f} kB of lse", 512 * 4 / 1e3),
    ("08", "4 N d · 2 = {:.1f} MB", 4 * 8192 * 128 * 2 / 1e6),
    ("08", "{} times fewer of them", 4 * 128),
    ("08", "in turn take {:.1f} times as long",
     1 + 64 * 64 / 16 / (2 * product_cycles(64, 64, 128))),
    ("08", "in tiles of 128 there are {} times as many", 8192 // 128),
    ("08", "({:.0f} KiB an SM", PLACES["shared memory"] / gpu("H100").sms / K),
    ("08", "a thread for {:.0f} KiB", 64 * 128 * 2 / K),
    ("08", "are {:.0f} MiB; this L2 holds {:.0f}.", k_and_v(131072, 1), PLACES["L2"] / M),
    ("09", "5 / 2 = {:.1f} times the forward's", 5 / 2),
    ("09", "seven, {:.1f} times the forward", 7 / 2),
    ("10", "**{:.0f} KiB**. 8192 tokens make {:.0f} GiB", 2 * 32 * 8 * 128 * 2 / K,
     8192 * 2 * 32 * 8 * 128 * 2 / G),
]  # fmt: skip
TOLD = {  # lesson -> what nothing here computes, and where it comes from
    "03": {"off by 1 %": "an answer to choose"},
    "04": {"in 192 KiB": "a public text's"},
    "08": {"2.6 times less error": "arXiv:2407.08608"},
    "09": {"at 2.5 times the FLOPs": "the convention"},
    "10": {
        "64 times the FLOPs, and 64 times the bytes": "an answer to choose",
        "4 times fewer": "32 heads, 8 heads",
        "64 times as high|about 8 times as high": "answers to choose",
        "nearly 7 times as much": "the cell above it",
        "A share of 100 %": "what the share means",
        "90 to 94 % of the best": "benchmarks/NOTES.md, as it says",
    },
    "11": {
        "20 to 38 % of|62 to 80 %, held|20 to 26 % longer": "Kwon and others",
        "24 times the throughput": "the claim",
        "81.6 % is|pages of 16, 3.8 %": "the table of the four requests",
        "took 7 % longer": "h100_paged, as its table says",
    },
    "12": {
        "16 GB; and|128 KiB each in all 32 layers: 15.7 GB|reads 3350 GB": "cost model, nominal",
        "8.1 GB in all, beside 256 GB": "the cell",
        "57 times less": "the table of latent rows",
        "256, 52 %": "132 / 256",
        "64 times fewer": "131,072 / 2048",
        "100 times as long": "an example",
        "1.7 times the tram's": "the simulated record",
    },
}


@pytest.mark.parametrize(("lesson", "text", "numbers"), [(a, b, c) for a, b, *c in COMPUTED])
def test_a_number_by_formula_is_the_formulas(lesson: str, text: str, numbers: list[float]) -> None:
    assert text.format(*numbers) in prose(lesson)


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_number_with_a_unit_is_computed_or_has_an_origin(lesson: str) -> None:
    text = prose(lesson)
    told = TOLD.get(lesson, {})
    assert [pattern for pattern in told if not re.search(pattern, text)] == []
    known = [
        piece.format(*numbers) for where, piece, *numbers in (*SAYS, *COMPUTED) if where == lesson
    ]
    for pattern in (*map(re.escape, known), *told):
        text = re.sub(pattern, "", text)
    assert WITH_UNIT.findall(text) == []


def test_the_pattern_sees_units_shares_and_ratios() -> None:
    for text in ("moves 4.3 GB", "50 MiB", "33, 29 and 50 MiB", "37.5 % of it", "3 times as many"):
        assert WITH_UNIT.search(text)
    for text in ("{n} GB", ".1%", "4 times as fast", "20 % 16 = 4", "34 GB/s", "N = 512 must"):
        assert not WITH_UNIT.search(text)
