"""Frames a second of the Race while it plays about 2,000 events in 1100 x 620.

    python benchmarks/race_frames.py

Chromium without a GPU draws on a screen that has 60 frames a second. "script" is what one frame of
the widget takes; the rest of the 16.7 ms is the browser's.
"""

from __future__ import annotations

import os
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from _bench import table
from conftest import BROWSER_ARGUMENTS
from playwright.sync_api import sync_playwright

from course_lib.widgets import Race
from course_lib.widgets.base import standalone_page

CASES = {
    "one program at once": {"n": 1024, "block_q": 32, "block_k": 32, "speed": 8},
    "132 at once": {"n": 1024, "block_q": 32, "block_k": 32, "speed": 8, "at_once": 132},
    "as a lesson shows it": {},
}
# Times between frames, and in scripts, for so many milliseconds.
WATCH = """ms => new Promise((done) => {
  const frames = [], script = [], ask = globalThis.requestAnimationFrame;
  let last = performance.now(), until = last + ms;
  globalThis.requestAnimationFrame = (f) => ask((now) => {
    const t0 = performance.now();
    f(now);
    script.push(performance.now() - t0);
  });
  const see = (now) => {
    frames.push(now - last);
    last = now;
    if (now < until) ask(see); else done([frames.slice(1), script]);
  };
  ask(see);
  [...document.querySelectorAll('button')].find((b) => b.textContent.includes('Play')).click();
})"""


def main() -> None:
    """Print a line a case."""
    rows = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=BROWSER_ARGUMENTS
        )
        for name, settings in CASES.items():
            race = Race(**settings)
            page = browser.new_page(viewport={"width": 1100, "height": 740})
            page.set_content(standalone_page(race))
            page.wait_for_timeout(500)
            frames, script = page.evaluate(WATCH, 6000)
            took = sorted(frames)
            rows.append(
                {"case": name, "events": sum(len(race.events(lane)) for lane in race.lanes),
                 "frames a second": round(1000 / statistics.mean(frames), 1),
                 "p95 ms between": round(took[int(0.95 * len(took))], 1),
                 "script median ms": round(statistics.median(script), 2),
                 "script p95 ms": round(sorted(script)[int(0.95 * len(script))], 2)}
            )  # fmt: skip
            page.close()
        browser.close()
    table(rows)
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}, this run included")


if __name__ == "__main__":
    main()
