"""Pictures to look at: every instrument, light and dark, narrow to wide; every lesson as it ran.

    python tests/widgets/screenshots.py FOLDER                    FOLDER/NAME_THEME_WIDTH.png
    python tests/widgets/screenshots.py FOLDER --only Race --only progress
    python tests/widgets/screenshots.py FOLDER --lessons  FOLDER/lesson_NN_THEME_WIDTH_PART.png

A lesson is run by ``course html`` and cut into pieces that can be looked at whole; with
``--pages FOLDER`` such pages are taken as they are. Needs Debian's Chromium and the packages of
``pip install -e '.[dev]'``.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from course_lib import demo, lessons, widgets
from course_lib.accounting.hardware import gpu
from course_lib.accounting.traffic import attention_flops, eager_six_trips, time_bounds
from course_lib.authoring.html_page import page as lesson_page
from course_lib.progress_view import path_html
from course_lib.widgets.base import CourseWidget, standalone_page
from course_lib.widgets.page_table import EXAMPLES

ROOT = Path(__file__).parents[2]
WIDTHS = (480, 1280, 1920)
PIECE = 1800  # px
_BY_HAND = ([[1, 3], [2, 5]], [[10, 20], [30, 40]])  # scores and values of two tiles
# The questions are those of lessons 01 and 02: what stands beside each other must agree.
_LINES = ("line 1: `q @ k.T`", "line 2: scale and softmax", "line 3: `weights @ v`")
_MOST = "At large N, which line moves the most bytes?"
_FACTOR = "N = 4096, d = 128. How many times the fewest possible bytes does naive attention move?"
_TIME = "Which change would help eager attention most at N = 128 (8 heads, d = 128, on an H100)?"
_BOUNDS = time_bounds(
    attention_flops(128, 128, 128, 8), eager_six_trips.bytes(n=128, d=128, heads=8), 4, gpu("H100")
)
_QUIZ: list[widgets.quiz.Option] = [
    (
        "A kernel that moves half the bytes",
        False,
        "The bytes take under 1 µs of at least 20 µs.",
        {"bytes": _BOUNDS["traffic_s"] / 2 * 1e6},
    ),
    (
        "A GPU with twice the FLOP/s",
        False,
        "The FLOPs take 0.07 µs of at least 20 µs.",
        {"FLOPs": _BOUNDS["arithmetic_s"] / 2 * 1e6},
    ),
    (
        "Fewer kernel launches",
        True,
        "Four launches take 20 µs, one takes 5. Batching (one kernel for many calls) and CUDA "
        "graphs (many launches recorded, started as one) both do this.",
        _BOUNDS["overhead_s"] * 3 / 4 * 1e6,
    ),
]
_LAUNCHES = {f"launch {i}": _BOUNDS["overhead_s"] / 4 * 1e6 for i in range(1, 5)}
_INSIDE = {"bytes": _BOUNDS["traffic_s"] * 1e6, "FLOPs": _BOUNDS["arithmetic_s"] * 1e6}
_SAVED: dict[str, Any] = {"unit": "µs saved at most", "whole": _LAUNCHES, "inside": _INSIDE}


def guessed_line() -> Any:
    """Return what lesson 01 shows of the dearest line after a wrong guess."""
    matrix, strip = (8 * 8192 * width * 2 / 1e9 for width in (8192, 128))  # GB: 8 heads, 2 bytes
    predict = widgets.Predict("shots-dearest", _MOST, options=_LINES, unit="GB")
    predict.answer = _LINES[0]
    says = (
        "It makes two of the four trips of S and P; lines 1 and 3 make one each, and move "
        "Q, K, V and O."
    )
    note = "Bars: N = 8192, 8 heads, d = 128, 2 bytes a number."
    parts: list[Any] = [
        {"S": matrix, "Q and K": 2 * strip},
        {"S": matrix, "P": matrix},
        {"P": matrix, "V and O": 2 * strip},
    ]
    sizes = dict(zip(_LINES, parts, strict=True))
    return predict.comparison(_LINES[1], says, sizes=sizes, note=note)


def guessed_factor() -> Any:
    """Return what lesson 02 shows of the factor after a guess that is too low."""
    predict = widgets.Predict("shots-factor", _FACTOR, unit="x", least=1)
    predict.answer = 8
    says = (
        "S and P make four trips: N / d = 4096 / 128 = 32 times the bytes of Q, K, V and O, "
        "which add 1 more."
    )
    sizes = {"S and P": 4096 / 128, "Q to O": 1.0}
    return predict.comparison(4096 / 128 + 1, says, sizes=sizes, one="the fewest possible")


def answered(quiz: widgets.Quiz, option: int = 0) -> widgets.Quiz:
    """Return the quiz with an answer given."""
    quiz.chosen, quiz.tries = [option], 1
    return quiz


def measured() -> widgets.RooflineChart:
    """Return the chart of lesson 08: two rungs, by their loads and by what HBM moved."""
    chart = widgets.RooflineChart(n=16384, d=128, heads=16, block_q=128)
    flops = 4 * 16384**2 * 128 * 16
    for name, block_q, tflops, dram_gb in (
        ("rung 1, the plainest", 64, 409, 0.281),
        ("rung 8, the fastest", 192, 748, 0.7619),
    ):
        same = widgets.RooflineChart(n=16384, d=128, heads=16, block_q=block_q)
        loads = same.intensity("flash prefill, tile loads")
        moved = flops / dram_gb / 1e9
        chart.add_measurement(name, intensity=moved, tflops=tflops, loads=loads)
    return chart


def timed() -> widgets.RooflineChart:
    """Return the chart of lesson 02: two measured marks under the roof."""
    chart = widgets.RooflineChart(n=8192, d=128, heads=8)
    chart.add_measurement("eager, measured", intensity=42.4, tflops=75)
    chart.add_measurement("flash, measured", intensity=4218, tflops=345)
    return chart


def full_blocks() -> widgets.PageTable:
    """Return the pages of lesson 11 after one request more, for which there is no block."""
    start = EXAMPLES["start"]
    frame = dict(start["frame"], wrote=["E", 10, 0])
    frame["tables"], frame["lengths"] = {**frame["tables"], "E": [10]}, {**frame["lengths"], "E": 1}
    operations = [*start["operations"], ["append", "E", 1]]
    return widgets.PageTable(operations=operations, frame=frame, chosen="B")


def half_way() -> str:
    """Return the path of `progress` with three lessons done."""
    done = [e.id for e in lessons.all_exercises() if e.lesson < 4]
    return path_html({id: {"passed": True} for id in done}, ROOT / "exercises")


SHOWN: dict[str, Callable[[], Any]] = {
    "Race": lambda: widgets.Race(1024, 128, 128, 128),
    "Race-midway": lambda: widgets.Race(1024, 128, 128, 128, at=0.3, flag=0.25),
    "HBMAccountant": lambda: widgets.HBMAccountant(),
    "HBMAccountant-small": lambda: widgets.HBMAccountant(n=16),
    "TileStepper": lambda: widgets.TileStepper.by_hand(*_BY_HAND),
    "TileStepper-midway": lambda: at_step(widgets.TileStepper(), 12),
    "TileStepper-rescale": lambda: at_step(widgets.TileStepper.by_hand(*_BY_HAND), 11),
    "TileSchedule": lambda: widgets.TileSchedule(n_q=16, n_k=16, block_q=4, block_k=4),
    "TileSchedule-midway": lambda: widgets.TileSchedule(mask="causal", step=6, guess=2),
    "SramBudget": lambda: widgets.SramBudget(),
    "SramBudget-over": lambda: widgets.SramBudget(block_q=256, block_k=256, d=128),
    "RooflineChart": lambda: widgets.RooflineChart(n=8192, d=128, heads=8),
    "RooflineChart-measured": lambda: measured(),
    "RooflineChart-timed": lambda: timed(),
    "RooflineChart-dial": lambda: widgets.RooflineChart(view="dial"),
    "KVCacheCalculator": lambda: widgets.KVCacheCalculator(),
    "PageTable": lambda: widgets.PageTable(chosen="C"),
    "PageTable-copy": lambda: widgets.PageTable.example("copy", chosen="D"),
    "PageTable-full": lambda: full_blocks(),
    "ServerMemory": lambda: widgets.ServerMemory(),
    "Predict-number": lambda: widgets.Predict("shots", _FACTOR, unit="x", least=1),
    "Predict-number-after": guessed_factor,
    "Predict-cards": lambda: widgets.Predict("shots-c", _MOST, options=_LINES),
    "Predict-cards-after": guessed_line,
    "Quiz": lambda: widgets.Quiz(_TIME, _QUIZ, **_SAVED),
    "Quiz-after": lambda: answered(widgets.Quiz(_TIME, _QUIZ, **_SAVED)),
    "Quiz-right": lambda: answered(widgets.Quiz(_TIME, _QUIZ, **_SAVED), 2),
    "progress": half_way,
    "peak_memory": lambda: demo.peak_memory().to_figure(),
}


def at_step(widget: Any, step: int) -> Any:
    """Return a stepper at this step."""
    widget.step = step
    return widget


def page_of(shown: Any) -> str:
    """Return a page of its own: a widget's, or a page that holds what a cell would show."""
    if isinstance(shown, CourseWidget):
        return standalone_page(shown)
    body = shown if isinstance(shown, str) else shown._repr_html_()
    look = ":root { color-scheme: light dark } body { margin: 0; font: 15px system-ui }"
    return f"<!doctype html><meta charset=utf-8><style>{look}</style><body>{body}"


def instruments(browser: Browser, folder: Path, names: list[str]) -> None:
    """Keep each instrument in both themes at each width."""
    for name in names:
        text = page_of(SHOWN[name]())
        for theme in ("light", "dark"):
            for width in WIDTHS:
                page = browser.new_page(
                    viewport={"width": width, "height": 200}, color_scheme=theme
                )
                page.set_content(text)
                page.wait_for_timeout(600)
                page.screenshot(path=folder / f"{name}_{theme}_{width}.png", full_page=True)
                page.close()


def lessons_whole(browser: Browser, folder: Path, pages: Path | None) -> None:
    """Keep every lesson, run, in both themes at each width, from top to bottom in pieces."""
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        built = pages and pages / f"{notebook.stem}.html"
        text = built.read_text(encoding="utf-8") if built else lesson_page(notebook)
        with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as file:
            file.write(text.replace('loading="lazy"', ""))
            file.flush()
            for theme in ("light", "dark"):
                for width in WIDTHS:
                    size = {"width": width, "height": PIECE}
                    page = browser.new_page(viewport=size, color_scheme=theme)
                    page.goto(f"file://{file.name}")
                    page.wait_for_timeout(3000)
                    in_pieces(page, folder / f"lesson_{notebook.stem[:2]}_{theme}_{width}", width)
                    page.close()


def in_pieces(page: Page, name: Path, width: int) -> None:
    """Keep a page as ``NAME_PART.png``."""
    tall = page.evaluate("document.querySelector('main, body').scrollHeight")
    page.set_viewport_size({"width": width, "height": tall})
    page.wait_for_timeout(1000)
    for part, top in enumerate(range(0, tall, PIECE)):
        box = {"x": 0, "y": top, "width": width, "height": min(PIECE, tall - top)}
        page.screenshot(path=name.with_name(f"{name.name}_{part:02}.png"), clip=box)


def main() -> None:
    """Write the pictures that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", metavar="NAME", action="append", choices=list(SHOWN))
    parser.add_argument("--lessons", action="store_true", help="the lessons, not the instruments")
    parser.add_argument("--pages", type=Path, help="what `course html` wrote before")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    os.environ["COURSE_STORE"] = str(Path(tempfile.mkdtemp()) / "store.json")  # nobody's
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        if options.lessons:
            lessons_whole(browser, options.folder, options.pages)
        else:
            instruments(browser, options.folder, options.only or list(SHOWN))
        browser.close()


if __name__ == "__main__":
    main()
