"""Every function that a widget's module exports is held against Python, run in node.

`GOLDEN` has a list of cases for each module of `course_lib/widgets/static/`: a function's name, its
arguments, and what it must return, computed by the Python twin, or by a walk that is plainly right
where Python has no such function. An exported function without a case fails. Where node is missing
these tests are skipped, and with COURSE_REQUIRE_BROWSER=1 (`.ci/run`) they fail.
"""

from __future__ import annotations

import json
import math
import random
import re
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from course_lib.accounting.hardware import GPUS
from course_lib.accounting.traffic import MODELS, derived_counts, symbols
from course_lib.widgets import (
    HBMAccountant,
    KVCacheCalculator,
    PageTable,
    Quiz,
    Race,
    RooflineChart,
    ServerMemory,
    SramBudget,
    TileSchedule,
    TileStepper,
    race_lanes,
    stepper_walk,
)
from course_lib.widgets.accountant_areas import placed
from course_lib.widgets.asking import bar_width
from course_lib.widgets.asking import number as as_text
from course_lib.widgets.kv_cache import CAPACITY, DTYPES, PRESETS, VARIANTS
from course_lib.widgets.page_table import EXAMPLES, counts
from course_lib.widgets.server_memory import (
    ANSWER,
    PAGE_SIZE,
    PLACES,
    RESERVING,
    memory_at,
    requests_at,
)
from course_lib.widgets.sram_budget import LAYOUTS, SHOWN_GPUS
from course_lib.widgets.tile_schedule import _LIMITS
from course_lib.widgets.tile_stepper import LINES_PER_TILE

STATIC = Path(__file__).parents[2] / "course_lib" / "widgets" / "static"
EXPORTED = re.compile(r"^export (?:function|const) (\w+)", re.MULTILINE)
THIS = "tests/widgets/test_javascript.py"

Case = tuple[str, list[Any], Any]  # function, arguments, what it returns


# The cases of each module -------------------------------------------------------------------------


def accountant(rng: random.Random) -> list[Case]:
    """Rows loaded, symbols, bytes and crossovers on random shapes."""
    widget, cases = HBMAccountant(), []
    for _ in range(300):
        n, *blocks = rng.randint(1, 600), rng.randint(1, 90), rng.randint(1, 90)
        want = derived_counts(n, n, *blocks, True)["visited_k_rows"]
        cases.append(("causalRows", [n, *blocks], want))
    for _ in range(60):
        shape = random_shape(rng)
        values = symbols(**shape)
        forward = {name: count for name, count in values.items() if name != "Q_rows"}
        cases.append(("symbols", [in_camel_case(shape)], forward))
        for sent in widget.data["models"]:
            cases.append(("modelBytes", [sent, values], MODELS[sent["name"]].bytes(**shape)))
        cases += accountants_picture(shape)
    for model in widget.data["models"]:
        args = [model, in_camel_case(widget.shape())]
        cases.append(("crossover", args, widget.crossover(model["name"])))
    for ratio in (0.25, 1.0, 1.26, 65.0, 99.4, 123.0, 1234.0):
        cases.append(("times", [ratio], f"{float(f'{ratio:.3g}'):g}"))
    return cases


def accountants_picture(shape: dict[str, Any]) -> list[Case]:
    """What is drawn, where it lies, and what sets the pace."""
    dtype = {1: "fp8", 2: "bf16", 4: "fp32"}[shape["b"]]
    widget = HBMAccountant(**{k: v for k, v in shape.items() if k != "b"}, dtype=dtype)
    chip, values, cases = widget.data["gpus"][widget.gpu], symbols(**shape), []
    for sent in widget.data["models"]:
        trips = widget.areas(sent["name"])
        cases.append(("areas", [sent, values], trips))
        cases.append(("placed", [trips], placed(trips)))
        args = [widget.flops(), widget.bytes(sent["name"]), sent["launches"], chip]
        want = widget.pace(sent["name"])
        cases.append(("pace", [*args, widget.data["launch_s"]], want))
    return cases


def random_shape(rng: random.Random) -> dict[str, Any]:
    kv_heads = rng.randint(1, 16)
    return {
        "n": rng.choice([1, 7, 64, 257, 1000, 4096, 2**17]),
        "d": rng.choice([16, 64, 80, 128]),
        "heads": kv_heads * rng.choice([1, 2, 4]),
        "kv_heads": kv_heads,
        "b": rng.choice([1, 2, 4]),
        "block_q": rng.choice([16, 48, 64, 128]),
        "block_k": rng.choice([16, 32, 100, 256]),
        "causal": rng.random() < 0.5,
    }


def in_camel_case(shape: dict[str, Any]) -> dict[str, Any]:
    names = {"kv_heads": "kvHeads", "block_q": "blockQ", "block_k": "blockK"}
    return {names.get(name, name): value for name, value in shape.items()}


def kv_cache(rng: random.Random) -> list[Case]:
    cases: list[Case] = []
    for _ in range(40):
        kv = rng.randint(1, 8)
        cache = KVCacheCalculator(
            rng.choice(list(PRESETS)), heads=kv * 4, kv_heads=kv, n=rng.randint(1, 10**6),
            batch=rng.randint(1, 99), window=rng.randint(1, 10**6), gpus=rng.randint(1, 8),
            dtype=rng.choice(list(DTYPES)), gpu=rng.choice(list(CAPACITY)),
        )  # fmt: skip
        now = {name: value for name, value in cache.module_state().items() if name != "data"}
        values = {"layers": cache.layers, "heads": cache.heads, "kv_heads": kv, "d": cache.d,
                  "tokens": cache.n, "window_tokens": min(cache.n, cache.window),
                  "batch": cache.batch, "b": DTYPES[cache.dtype]}  # fmt: skip
        cases.append(("cacheValues", [now, DTYPES], values))
        for name, variant in VARIANTS.items():
            cases.append(("cacheBytes", [variant, values], cache.cache_bytes(name)))
            cases.append(("requestsThatFit", [variant, now, cache.data], cache.requests(name)))
            cases.append(("saysOf", [variant, now], cache.says(name)))
    return cases


def page_table(rng: random.Random) -> list[Case]:
    """Recorded answers, requests in order of arrival, and random walks by a plain pool."""
    in_order = PageTable(lengths=(5, 17, 32, 700), reserve=1024)
    recorded = [(x["operations"], 16, 16, x["frame"]) for x in EXAMPLES.values()]
    recorded.append((in_order.operations, 4096 // 16, 16, in_order.frame))
    for _ in range(40):
        pages, size, operations = rng.randint(1, 12), rng.randint(1, 6), []
        for _ in range(rng.randint(0, 20)):
            names = rng.sample("ABCDEF", 2)
            append = ["append", names[0], rng.randint(1, 9)]
            operations.append(rng.choice([append, append, ["fork", *names], ["free", names[0]]]))
        recorded.append((operations, pages, size, walked(operations, pages, size)))
    cases: list[Case] = []
    for operations, pages, size, frame in recorded:
        cases.append(("walk", [operations, pages, size], frame))
        cases.append(("counts", [frame, size, 7], counts(frame, size, 7)))
    return json.loads(json.dumps(cases))  # pages are names there


def walked(operations: list[list[Any]], pages: int, size: int) -> dict[str, Any]:
    """Return the frame after some operations: a page is free where no table names it."""
    tables: dict[str, list[int]] = {}
    lengths: dict[str, int] = {}
    refused, wrote, copied = 0, None, None
    for what, name, *other in operations:
        wrote = copied = None
        for done in range(other[0] if what == "append" else 0):
            table, slot = tables.setdefault(name, []), lengths.setdefault(name, 0) % size
            shared = slot and sum(table[-1] in each for each in tables.values()) > 1
            if shared or not slot:
                free = set(range(pages)).difference(*tables.values())
                if not free:
                    refused += other[0] - done
                    break
                copied = [table[-1], min(free)] if shared else copied
                table[len(table) - bool(shared) :] = [min(free)]
            wrote = [name, table[-1], slot]
            lengths[name] += 1
        if what == "fork" and name in tables and other[0] not in tables:
            tables[other[0]], lengths[other[0]] = list(tables[name]), lengths[name]
        if what == "free":
            tables.pop(name, None), lengths.pop(name, None)
    return {"page_size": size, "tables": tables, "lengths": lengths, "wrote": wrote,
            "copied": copied, "refused": refused}  # fmt: skip


def quiz(rng: random.Random) -> list[Case]:
    """Within the tolerance, relative to the answer, is right; of an answer of 0, absolutely."""
    cases: list[Case] = []
    for _ in range(60):
        answer = rng.choice([0.0, rng.uniform(-1e6, 1e6), rng.uniform(-1, 1)])
        tolerance = rng.choice([0.01, 0.1, 0.5])
        for share, right in ((0.0, True), (0.9, True), (1.1, False), (3.0, False)):
            off = rng.choice([-1, 1]) * share * tolerance * (abs(answer) or 1.0)
            cases.append(("isRight", [answer + off, answer, tolerance], right))
    for value in (0, 7, 8192, 4.60429, 0.13534, 36.88, 1234.6, rng.uniform(1e-3, 1e6)):
        cases.append(("meant", [value], as_text(value, "")))
    for sizes in ([20, 0.783, 0.0679], [0, 0], [rng.uniform(1e-6, 1e6) for _ in range(4)]):
        cases += [("barWidth", [size, sizes], bar_width(size, sizes)) for size in sizes]
    return cases


def race(rng: random.Random) -> list[Case]:
    """Moves, their schedule and the first difference, on random shapes, ragged and coarse ones."""
    cases: list[Case] = []
    for number in range(30):
        n_q = rng.choice([1, rng.randint(1, 70)])
        n_k, blocks = n_q + rng.randint(0, 40), [rng.randint(1, 30), rng.randint(1, 30)]
        if number == 0:
            n_q, n_k, blocks = 640, 640, [8, 8]  # more than 4000 events
        shape = race_lanes.Shape(n_q, n_k, 8, *blocks, rng.random() < 0.5, rng.choice([2, 4]))
        both = race_lanes.flash_kernels(shape), race_lanes.naive_kernels(shape)
        cases.append(("flashKernels", [shape._asdict()], plain(both[0])))
        cases.append(("naiveKernels", [shape._asdict(), race_lanes.NAIVE], plain(both[1])))
        lanes = []
        for kernels in both:
            settings = [rng.randint(1, 9), rng.uniform(1, 9000), rng.choice([0, 3000, 10**9])]
            lanes.append(race_lanes.schedule(kernels, *settings))
            cases.append(("schedule", [kernels, *settings], plain(map(in_javascript, lanes[-1]))))
        extra = lanes[0][-1]._replace(tensor="lse")  # no difference
        mixed = [
            lanes[0],
            lanes[1],
            lanes[0][:-1],
            [extra, *lanes[0]],
            [*lanes[0], extra, lanes[1][0]],
        ]
        for mine in mixed:
            want = race_lanes.first_difference(mine, lanes[0])
            args = [[in_javascript(event) for event in lane] for lane in (mine, lanes[0])]
            cases.append(("firstDifference", args, want))
    return cases


def in_javascript(event: race_lanes.Event) -> dict[str, Any]:
    """Return an event as the module has it: ``bytes`` is a name there."""
    return {"bytes" if name == "n_bytes" else name: x for name, x in event._asdict().items()}


def plain(value: Any) -> Any:
    return [plain(x) for x in value] if isinstance(value, list | tuple | map) else value


def roofline(rng: random.Random) -> list[Case]:
    cases: list[Case] = []
    for _ in range(40):
        kv = rng.randint(1, 8)
        most = {"n": 9999, "d": 256, "batch": 64, "block_q": 300, "queries": 9999}
        shape = {name: rng.randint(1, limit) for name, limit in most.items()}
        shape |= {"heads": kv * rng.randint(1, 8), "kv_heads": kv}
        view = rng.choice(["kernels", "dial"])
        chart = RooflineChart(**shape, gpu=rng.choice(list(GPUS)), view=view)
        for sent in chart.data["views"][view]:
            x = chart.intensity(sent["label"])
            cases.append(("intensity", [sent, shape], x))
            cases.append(("attainable", [x, chart.data["gpus"][chart.gpu]], chart.attainable(x)))
    return cases


def sram_budget(rng: random.Random) -> list[Case]:
    cases: list[Case] = []
    for layout in list(LAYOUTS) * 40:
        sizes = {name: rng.randint(1, 300) for name in ("block_q", "block_k", "d")}
        budget = SramBudget(**sizes, stages=rng.randint(1, 8), buffers=layout, dtype="fp32")
        values = {**sizes, "stages": budget.stages, "b": 4}
        for where, terms in LAYOUTS[layout].items():
            cases.append(("bufferBytes", [terms, values], budget.buffer_bytes(where)))
        for name in SHOWN_GPUS:
            args = [LAYOUTS[layout]["shared"], values, GPUS[name].shared_bytes]
            cases.append(("largestTile", args, budget.largest_tile(name)))
    return cases


def tile_schedule(rng: random.Random) -> list[Case]:
    cases: list[Case] = []
    for _ in range(60):
        schedule = TileSchedule(
            n_q=rng.randint(1, 20), n_k=rng.randint(1, 20), block_q=rng.randint(1, 7),
            block_k=rng.randint(1, 7), window=rng.randint(1, 20), splits=rng.randint(1, 4),
            at_once=rng.randint(1, 5), heads=rng.choice([1, 2]), kv_heads=1,
            mask=rng.choice(["everything", "causal", "window"]),
            schedule=rng.choice(["flash", "naive", "split_k"]),
        )  # fmt: skip
        now = {name: getattr(schedule, name) for name in (*_LIMITS, "mask", "schedule")}
        steps = [[list(w) for w in step] for step in schedule.steps()]
        cases.append(("steps", [now], steps))
        for i, row in enumerate(schedule.tiles()):
            cases += [("classify", [now, i, j], kind) for j, kind in enumerate(row)]
        for step in (0, len(steps) // 2, len(steps)):
            cases.append(("loads", [now, step], asdict(schedule.loads(step))))
    return cases


def tile_stepper(rng: random.Random) -> list[Case]:
    """The recurrence and its slips, what each pile has in a sum, the walk line by line."""
    cases: list[Case] = []
    for variant, tiles in product(stepper_walk.VARIANTS, ([(0, 4), (4, 5), (5, 9)], [(3, 9)])):
        scores = np.array([rng.uniform(-9, 9) for _ in range(9)])
        scores[rng.randrange(8)] = -np.inf
        values = np.array([[rng.uniform(1, 9) for _ in range(2)] for _ in range(9)])
        steps = stepper_walk.trace(scores, values, tiles, variant)
        plain = {name: [np.asarray(x).tolist() for x in steps[name]] for name in steps}
        powers = {
            "no_rescale_o": (1, 0),
            "no_rescale_l": (0, 1),
            "neither": (0, 0),
            "inverse": (-1, -1),
        }
        power_l, power_o = powers.get(variant, (1, 1))
        shrinks = [
            1.0 if i == 0 and variant != "start_zero" else a for i, a in enumerate(steps["alpha"])
        ]
        given = ["-Infinity" if score == -np.inf else score for score in scores.tolist()]
        by = {"l": [x**power_l for x in shrinks], "o": [x**power_o for x in shrinks]}
        sums = {
            "l": [p.sum().item() for p in steps["p"]],
            "o": [(p @ values[a:b]).tolist() for p, (a, b) in zip(steps["p"], tiles, strict=True)],
        }
        cases.append(
            ("trace", [given, values.tolist(), tiles, variant], {**plain, "sums": sums, "by": by})
        )
        for place in range(len(tiles)):
            parts = [sums["l"][j] * math.prod(by["l"][j + 1 : place + 1]) for j in range(place + 1)]
            assert math.isclose(sum(parts), plain["l"][place], rel_tol=1e-9)
            cases.append(("shares", [sums["l"], by["l"], place], parts))
    for o, l_sum, empty in (([1.5, -2.0], 4.0, False), ([0.0, 0.0], 0.0, True)):
        want = stepper_walk.divided(np.array(o), l_sum, empty).tolist()
        cases.append(("divided", [o, l_sum, empty], want))
    for n_tiles in (1, 2, 5):
        run = {name: [rng.uniform(-9, 9) for _ in range(n_tiles)] for name in ("m", "alpha", "l")}
        run["o"] = [[rng.uniform(-9, 9) for _ in range(3)] for _ in range(n_tiles)]
        run["by"] = {name: [rng.uniform(0, 1) for _ in range(n_tiles)] for name in ("l", "o")}
        start = rng.uniform(-9, 9)
        state = {"m": start, "kept": start, "alpha": None, "l": 0, "o": [0, 0, 0]}
        walk = [(tile, line) for tile in range(n_tiles) for line in range(1, LINES_PER_TILE + 1)]
        for step, (place, line) in enumerate([(-1, 0), *walk, (n_tiles, 0)]):
            if line <= 1:
                state["alpha"] = None  # it is of one tile
            if name := {3: "m", 4: "alpha", 6: "l", 7: "o"}.get(line):
                state[name] = run[name][place]
            if line == 4:  # the old ones shrink, and the new m is kept
                state["kept"] = state["m"]
                state["l"] *= run["by"]["l"][place]
                state["o"] = [x * run["by"]["o"][place] for x in state["o"]]
            cases.append(("position", [step, n_tiles], {"place": place, "line": line}))
            cases.append(("stateAt", [run, step, n_tiles, start], dict(state)))
        last = len(walk) + 1
        whole = [0, *(k for k in range(1, last) if k % LINES_PER_TILE == 0), last]
        for step in range(last + 1):
            after = min((k for k in whole if k > step), default=last)
            before = max((k for k in whole if k < step), default=0)
            cases += [
                ("stepFrom", [step, 1, "line", n_tiles], min(step + 1, last)),
                ("stepFrom", [step, -1, "line", n_tiles], max(step - 1, 0)),
                ("stepFrom", [step, 1, "tile", n_tiles], after),
                ("stepFrom", [step, -1, "tile", n_tiles], before),
            ]
    return cases


def server_memory(rng: random.Random) -> list[Case]:
    cases: list[Case] = []
    for _ in range(20):
        setting = {name: rng.choice(values) for name, values in PLACES.items()}
        widget = ServerMemory(**setting)
        for name, run in widget.runs().items():
            lane = widget.data["lanes"][name]
            cases.append(("runAt", [lane, setting], run))
            reserved = setting["prompt"] + ANSWER if name in RESERVING else 0
            room = {"pages": setting["pages"], "reserved": reserved}
            requests = requests_at(setting["every"], setting["prompt"])
            told = widget.data["requests"][f"{setting['every']} {setting['prompt']}"]
            for t in (run["moment"], *rng.sample(range(int(1000 * run["seconds"])), 5)):
                here = [list(one) for one in memory_at(run, requests, t, **room)]
                cases.append(("memoryAt", [run, told, t, {**room, "size": PAGE_SIZE}], here))
    return cases


GOLDEN: dict[str, tuple[type, Callable[[random.Random], list[Case]]]] = {
    "accountant": (HBMAccountant, accountant),
    "kv_cache": (KVCacheCalculator, kv_cache),
    "page_table": (PageTable, page_table),
    "quiz": (Quiz, quiz),
    "race_lanes": (Race, race),
    "roofline": (RooflineChart, roofline),
    "server_memory": (ServerMemory, server_memory),
    "sram_budget": (SramBudget, sram_budget),
    "tile_schedule": (TileSchedule, tile_schedule),
    "tile_stepper": (TileStepper, tile_stepper),
}


# The tests ----------------------------------------------------------------------------------------


def exported(module: str) -> set[str]:
    """Return the names that a module exports, ``render`` aside."""
    text = (STATIC / f"{module}.js").read_text(encoding="utf-8")
    others = set(re.findall(r"^export\b.*", text, re.MULTILINE)) - {"export default { render };"}
    names = set(EXPORTED.findall(text))
    assert len(others) == len(names), f"{module}.js exports in a way this test does not know"
    return names


@cache
def cases_of(module: str) -> list[Case]:
    return GOLDEN[module][1](random.Random(1))


def compare_in_node(node: Path, widget: type, cases: list[Case], folder: Path) -> str:
    """Return "" if every case is as it should be, else what differs."""
    module, table = folder / "module.mjs", folder / "golden.json"
    module.write_text(str(widget._esm), encoding="utf-8")
    table.write_text(json.dumps(cases), encoding="utf-8")
    script = Path(__file__).with_name("golden.mjs")
    run = subprocess.run([node, script, module, table], capture_output=True, text=True, timeout=120)
    return run.stderr if run.returncode else ""


@pytest.mark.parametrize("module", GOLDEN)
def test_javascript_computes_what_python_computes(node, tmp_path, module):
    widget, cases = GOLDEN[module][0], cases_of(module)
    assert {name for name, *_ in cases} == exported(module)
    assert compare_in_node(node, widget, cases, tmp_path) == ""


def test_every_exported_function_has_its_cases():
    """Without node too: `test_javascript_computes_what_python_computes` may be skipped."""
    modules = {file.stem: exported(file.stem) for file in STATIC.glob("*.js")}
    assert {module for module, names in modules.items() if names} == set(GOLDEN)
    for module in GOLDEN:
        assert {name for name, *_ in cases_of(module)} == modules[module], module


@pytest.mark.parametrize("module", GOLDEN)
def test_both_twins_say_where_they_are_compared(module):
    for file in (STATIC / f"{module}.js", STATIC.parent / f"{module}.py"):
        assert THIS in file.read_text(encoding="utf-8")[:1000], file.name


@pytest.mark.parametrize(
    "wrong",
    [
        ("attainable", [1.0, {"hbm_gb_per_s": 1000, "tflops_half": 9}], 2.0),
        ("attainable", [1.0, {"hbm_gb_per_s": 1000, "tflops_half": 9}], {"x": 1.0}),
        ("no_such_function", [], 1),
    ],
)
def test_a_wrong_case_is_found(node, tmp_path, wrong):
    assert compare_in_node(node, RooflineChart, [wrong], tmp_path) != ""
