"""Measured numbers in the lessons' prose are those of the records.

Prose cannot compute, so each such number is computed here, and its sentence is looked for. When a
record is measured again, this test names the sentences that have become wrong. And a number with a
unit that only a clock gives must be among these, or stand in `SAID` with where it comes from.
"""

from __future__ import annotations

import ast
import re
import statistics
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from conftest import ROOT

from course_lib.accounting.hardware import gpu
from course_lib.accounting.measurements import load_measurements
from course_lib.accounting.traffic import attention_flops, eager_six_trips
from course_lib.authoring.percent import read_cells
from course_lib.figures.timeline import cycles_of_a_tile, share_of_peak

LESSONS = {path.parent.name[:2]: path for path in sorted((ROOT / "sources").glob("*/lesson.py"))}
CLOCKED = re.compile(
    r"(?<![\w.{])\d[\d.,]*(?: (?:to|and|or) \d[\d.,]*)? "
    r"?(?:µs|us|ms|microseconds?|milliseconds?|[TP]FLOP/s|[GT]B/s"
    r"|times as fast|times (?:faster|slower))(?!\w)"
)


@cache
def prose(lesson: str) -> str:
    """Return what a lesson says in Markdown and in strings, each run of white space one space."""
    said = []
    for cell in read_cells(LESSONS[lesson]):
        if cell.kind == "code":
            nodes = ast.walk(ast.parse(cell.source))
            said += [x.value for x in nodes if isinstance(x, ast.Constant) and str(x.value)]
        else:
            said.append(cell.source)
    return re.sub(r"\s+", " ", " | ".join(map(str, said)))


def rows(record: str, part: str = "rows", **key: Any) -> Iterator[dict[str, Any]]:
    return (r for r in load_measurements(record)[part] if key.items() <= r.items())


def one(record: str, value: str, part: str = "rows", **key: Any) -> Any:
    (row,) = rows(record, part, **key)
    return row[value]


def step(name: str, value: str) -> float:
    return one("h100_naive_steps", value, step=name)


def lane(what: str) -> float:
    (rung_4,) = rows("h100_timeline", kernel="edge_masks")
    return {one["what"]: one["cycles"] for one in rung_4["medians"]}[what]


def loop_share(kernel: str) -> float:
    """Return the share of a tile's cycles that the products of an SM's lanes need."""
    products, took = cycles_of_a_tile(kernel)
    return products / took


def backward_share(*what: str) -> float:
    """Return the share of steps that begin so in a tile's cycles of the backward, both groups."""
    (row,) = rows("h100_timeline", kernel="gradients")
    found = [one["cycles"] for one in row["medians"] if one["what"].startswith(what)]
    return sum(found) / sum(one["cycles"] for one in row["medians"])


def at_the_same_step() -> float:
    """Return the share of the window in which both groups of the backward do the same."""
    (row,) = rows("h100_timeline", kernel="gradients")
    first, second = ([s for s in row["spans"] if s["lane"] == f"group {g}"] for g in (0, 1))
    shared = (
        min(a["end"], b["end"], row["window"]) - max(a["begin"], b["begin"], 0)
        for a in first
        for b in second
        if a["what"] == b["what"]
    )
    return sum(max(cycles, 0) for cycles in shared) / row["window"]


def us(value: str, n: int) -> float:
    return one("h100_regimes", value, n=n)


def faster(n: int) -> float:
    """Return how many times faster than eager the fused kernel was."""
    return us("eager_us", n) / us("flash_us", n)


def dram(kernel: str, n: int, causal: bool) -> float:
    """Return a kernel's DRAM bytes as a multiple of the least."""
    (row,) = rows("h100_dram_traffic", "sweep", kernel=kernel, n=n, causal=causal)
    return row["dram_gb"] / row["compulsory_gb"]


def long_call(causal: bool) -> float:
    return one("h100_dram_traffic", "dram_gb", n=131072, heads=8, causal=causal)[0]


def dram_of(kernel: str, value: str = "dram_gb", n: int = 131072, causal: bool = True) -> Any:
    return one("h100_dram_traffic", value, "sweep", kernel=kernel, n=n, causal=causal)


def of_rungs(value: str) -> list[float]:
    """Return the medians of rungs 1 and 8, GB."""
    ways = ("1 by_mask", "8 specialised")
    return [
        statistics.median(row[value] for row in rows("h100_dram_traffic", "rungs", kernel=way))
        for way in ways
    ]


def shuffled(longest_first: bool) -> float:
    key = {"n": 131072, "causal": True, "together": 1, "from_end": False}
    return one("h100_dram_traffic", "dram_gb", "orders", **key, longest_first=longest_first)


def rescaling(kernel: str) -> float:
    """Return the most cycles that a lane spends on rescaling O, or on asking whether it must."""
    (row,) = rows("h100_timeline", kernel=kernel)
    return max(one["cycles"] for one in row["medians"] if one["what"] == "rescales O")


def slope_us(model: Any) -> float:
    """Return the microseconds of a model's bytes at the nominal bandwidth, N = 8192, 8 heads."""
    return model.bytes(n=8192, d=128, heads=8) / gpu("H100").hbm_gb_per_s / 1e3


def line_2_share() -> float:
    took = {r["step"]: r["median_us"] for r in rows("h100_naive_steps")}
    return (took["/ sqrt(d)"] + took["softmax"]) / sum(took.values())


def rung_8_takes_most() -> int:
    """Return from which N on, all keys, it takes a tenth more from DRAM than others, or more."""
    lengths = sorted({r["n"] for r in rows("h100_dram_traffic", "sweep", causal=False)})
    others = ("SDPA flash", "plain kernel")
    less = [
        n for n in lengths
        if dram("flash_attention", n, False) < 1.1 * max(dram(k, n, False) for k in others)
    ]  # fmt: skip
    return min(n for n in lengths if n > max(less))


def rung(way: str, causal: bool, value: str = "tflops") -> float:
    return one("h100_ladder", value, n=16384, d=128, way=way, causal=causal)


def gain(causal: bool) -> float:
    return rung("8 specialised", causal) / rung("1 by_mask", causal)


def peer(way: str, d: int) -> float:
    shape = {"batch": 2, "heads": 2048 // d, "kv_heads": 2048 // d, "n": 8192, "d": d}
    return one("h100_peers", "tflops", **shape, causal=False, way=way, **{"pass": "forward"})


def forward(way: str) -> float:
    return one("h100_forward", "median_us", n=8192, causal=False, way=way)


def products_us() -> float:
    """Return the microseconds of lesson 07's products at N = 8192 at the nominal speed."""
    return attention_flops(8192, 8192, 128, 8) / gpu("H100").tflops_half / 1e6


def least_us() -> float:
    """Return the microseconds of its inputs and outputs, bf16, at the nominal bandwidth."""
    return 8 * 4 * 8192 * 128 * 2 / gpu("H100").hbm_gb_per_s / 1e3


def decode(way: str, batch: int = 1, n: int = 65536) -> float:
    return one("h100_decode", "median_us", batch=batch, n=n, kv_heads=8, way=way)


def fused(version: str, value: str) -> float:
    return one("h100_compile_fusion", value, version=version)


def twice_walked() -> float:
    """Return the least share of its speed that two walks cost the backward, in percent."""
    speed = {(r["d"], r["causal"], r["way"]): r["tflops"] for r in rows("h100_backward")}
    two = "course, the same every time"
    return min(
        100 - 100 * speed[d, c, two] / speed[d, c, "course"] for d in (64, 128) for c in (0, 1)
    )


OFF, EAGER = "torch.compile(naive), pattern off", "eager naive"
FLASH, OURS = "SDPA flash", "flash_attention"
MIDDLE = ("2 base_two", "3 skip_tiles", "4 edge_masks", "5 tuned")
SAYS = [  # lesson, a piece of its prose, the numbers in it
    ("01", "The division moves its {:.2f} GB in {:.2f} ms: {:.1f} TB/s",
     step("/ sqrt(d)", "dram_gb"), step("/ sqrt(d)", "median_us") / 1e3,
     step("/ sqrt(d)", "dram_gb") / step("/ sqrt(d)", "median_us") * 1e3),
    ("01", "this memory can do {:.2f}", gpu("H100").hbm_gb_per_s / 1e3),
    ("01", "takes {} times as long",
     {3: "three"}.get(round(step("softmax", "median_us") / step("/ sqrt(d)", "median_us")))),
    ("02", "{:.2f} GB for eager", fused(EAGER, "dram_gb")),
    ("02", "{:.3f} GB for the fused kernel", fused(FLASH, "dram_gb")),
    ("02", "*Times faster* is {:.1f} at N = 8192. (At 16384 it is {:.1f}:", faster(8192),
     faster(16384)),
    ("02", "line is flat from N = 64 to {}", max(
        n for n in (512, 1024, 2048) if us("eager_us", n) < 1.1 * us("eager_us", 64))),
    ("02", "eager took {:.0f} µs at N = 512", us("eager_us", 512)),
    ("02", "{:.1f} times fewer bytes, as the model says",
     fused(EAGER, "dram_gb") / fused(OFF, "dram_gb")),
    ("02", "the time fell by a factor of {:.0f}", fused(EAGER, "us") / fused(OFF, "us")),
    ("02", "than eager and is {:.1f} times faster", faster(8192)),
    ("04", "reaches DRAM: more than {:.0f} times the bound", dram(FLASH, 131072, True) // 10 * 10),
    ("04", "about {:.0f} times as much", round(long_call(True) / long_call(False), -1)),
    ("04", "{} of what the tiles load now reaches DRAM",
     {0.5: "Half"}.get(round(dram_of(FLASH) / dram_of(FLASH, "tile_loads_gb"), 1))),
    ("02", "the counters saw {} kernels of this fused attention",
     {2: "two"}.get(dram_of(FLASH, "kernels", 1024, causal=False))),
    ("02", "gets {} of what the road allows", {0.5: "half"}.get(
        round(slope_us(eager_six_trips) / us("eager_us", 8192), 1))),
    ("02", "reaches {} of that roof", {0.35: "a third"}.get(
        round(20 * products_us() / us("flash_us", 8192)) / 20)),
    ("01", "is more than {} of the time", 
     {0.75: "three quarters"}.get(line_2_share() // 0.05 / 20)),
    ("07", "Tiles of 128 × 128 re-read half as much and take {} as long", {2.0: "twice"}.get(
        round(forward("course_128x128") / forward("course_64x64")))),
    ("08", "asks whether it must: that takes less than {} as many cycles", {True: "half"}.get(
        rescaling("specialised") < rescaling("edge_masks") / 2)),
    ("08", "to less than a {}", {True: "thirtieth"}.get(
        30 < shuffled(False) / shuffled(True) < 40)),
    ("06", "differ by at most {:.6f}; there a float32 product errs by {:.6f}",
     load_measurements("h100_ceilings")["dot_errors"]["tf32_from_emulation"],
     load_measurements("h100_ceilings")["dot_errors"]["ieee"]),
    ("07", "At N = 8192, by the data sheet, the least bytes take {:.0f} µs", least_us()),
    ("07", "take this GPU {:.0f} µs. The kernel takes {:.0f}.", products_us(),
     forward("course_64x64")),
    ("07", "is about {} faster than FlashAttention-2", {0.9: "a tenth"}.get(
        round(forward("course_64x64") / forward("sdpa_flash"), 1))),
    ("08", "Exponentials and rescaling take {} as long as that",
     {2: "twice"}.get(round((lane("exponentials") + lane("rescales O")) / lane("product")))),
    ("08", "the grey bar is {} times as long as in the picture above",
     {3.1: "three"}.get(round(lane("exponentials") / (64 * 64 / 16), 1))),
    ("08", "rungs 2 to 5 all took {:.1f} to {:.1f} ms",
     *(f(rung(way, False, us) for way in MIDDLE) / 1e3
       for f, us in ((min, "min_us"), (max, "max_us")))),
    ("08", "rung 3 took {:.2f} to {:.2f} ms, rung 4 {:.2f} to {:.2f}",
     *(rung(way, True, us) / 1e3 for way in MIDDLE[1:3] for us in ("min_us", "max_us"))),
    ("08", "reaches nearly {} of the tensor cores' peak, rung 4's less than {} ",
     {65: "two thirds"}.get(5 * round(20 * share_of_peak("specialised"))),
     {True: "half"}.get(share_of_peak("edge_masks") < 0.5)),
    ("08", "asked for {:.0f} GB by rung 1 and for {:.0f} by rung 8", *of_rungs("l2_asked_gb")),
    ("08", "moved {:.2f} GB of the {:.0f} GB that rung 1 loads, and {:.2f} GB of the {:.0f} GB",
     of_rungs("dram_gb")[0], of_rungs("tile_loads_gb")[0],
     of_rungs("dram_gb")[1], of_rungs("tile_loads_gb")[1]),
    ("08", "there is a factor of {:.1f}, and from rung 8 to the flat roof one of {:.1f}",
     gain(False), gpu("H100").tflops_half / rung("8 specialised", False)),
    ("08", "at N = 2048 by {}, as much as O", {0.75: "a quarter"}.get(
        round(dram("plain kernel", 2048, False), 2))),
    ("08", "than the others from N = {} on", rung_8_takes_most()),
    ("08", "128 × 64 took {} as long as 64 × 64", {2.0: "twice"}.get(
        round(forward("course_128x64") / forward("course_64x64"), 1))),
    ("08", "Rung 4 is {:.1f} times rung 2 there",
     rung("4 edge_masks", True) / rung("2 base_two", True)),
    ("08", "{:.1f} times as fast as the first for all keys, and {:.1f} times for causal",
     gain(False), gain(True)),
    ("08", "a factor of {:.1f} (d = 64) to {:.1f} (d = 128)", peer("cuDNN", 64) / peer("FA2", 64),
     peer("cuDNN", 128) / peer("FA2", 128)),
    ("09", "cost a {} of the speed or more", {25: "quarter"}.get(5 * round(twice_walked() / 5))),
    ("09", "of both groups need {} of this tile's cycles", {2.0: "two thirds"}.get(
        round(3 * loop_share("gradients"), 1))),
    ("09", "longest step, {}, lasts", {True: "a quarter or a little more"}.get(
        0.25 < backward_share("S, dQ") < 0.29)),
    ("09", "For nearly {} a group waits", {0.9: "a third"}.get(
        round(3 * backward_share("waits"), 1))),
    ("09", "and {} of that is for dV, dK and dQ", {2.0: "two thirds"}.get(round(
        3 * backward_share("waits for dV", "waits for dQ") / backward_share("waits"), 1))),
    ("09", "More than {} of the time both groups are at the same step", {True: "half"}.get(
        0.5 < at_the_same_step() < 0.65)),
    ("10", "are 4 times 65,536, and they take about {:.0f} times as long",
     decode("flash_decode", 16, 16384) / decode("flash_decode")),
    ("10", "needs its keys split ({:.0f} times faster",
     decode("flash_decode 1") / decode("flash_decode")),
]  # fmt: skip
SAID = {  # what CLOCKED finds and no record holds: lesson -> a pattern of the prose, its origin
    "02": {
        "least it costs is 5 microseconds": "nominal, LAUNCH_S",
        "takes less than 10 µs": "formula, N = 512",
        "four launches of 5 µs are 20 µs": "nominal, LAUNCH_S",
        "Four launches take 20 µs": "nominal, LAUNCH_S",
        "The bytes take under 1 µs of at least 20 µs": "formula, N = 128; LAUNCH_S, four launches",
        "The FLOPs take 0.07 µs of at least 20 µs": "formula, N = 128; LAUNCH_S, four launches",
        "becomes 4 times faster": "an example",
        "97 times fewer bytes 97 times faster": "a question",
        "the whole is 1.33 times as fast": "Amdahl's formula",
    },
    "08": {
        "At 989 TFLOP/s: 35 µs": "nominal, formula",
        "a second: 17 µs": "formula",
        "At 3350 GB/s: 2.5 µs": "nominal, formula",
        "close to 1.2 PFLOP/s": "arXiv:2407.08608",
    },
    "09": {"our backward reaches 500 TFLOP/s": "an example"},
    "11": {"makes serving 24 times faster": "the claim", "makes it 24 times faster": "the claim"},
    "12": {
        r"(?:one (?:every|each)|request(?: come)? every|back to) [24]0 ms": "an example",
        "865 TFLOP/s(?: for 3.35 TB/s)?": "FlashMLA's authors",
        "up to 660 TFLOP/s": "FlashMLA's README",
        "3000 GB/s where memory is": "FlashMLA's README",
        "133 ms, not 9": "the cost model",
    },
}


@pytest.mark.parametrize(("lesson", "text", "numbers"), [(a, b, c) for a, b, *c in SAYS])
def test_a_measured_number_in_prose_is_the_records(lesson, text, numbers):
    assert text.format(*numbers) in prose(lesson)


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_number_of_a_clock_is_computed_or_has_an_origin(lesson):
    text = prose(lesson)
    known = [piece.format(*numbers) for where, piece, *numbers in SAYS if where == lesson]
    assert [pattern for pattern in SAID.get(lesson, ()) if not re.search(pattern, text)] == []
    for pattern in (*map(re.escape, known), *SAID.get(lesson, ())):
        text = re.sub(pattern, "", text)
    assert CLOCKED.findall(text) == []


def test_the_pattern_sees_what_a_clock_gives():
    for text in (
        "takes 826 us",
        "5.1 to 5.9 ms",
        "400 TFLOP/s",
        "1.7 times as fast",
        "2 times faster",
    ):
        assert CLOCKED.search(text)
    for text in ("4 times the bytes", "8 users", "34 GB", "{us} us", "N = 512 must"):
        assert not CLOCKED.search(text)
