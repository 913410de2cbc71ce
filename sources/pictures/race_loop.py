"""Film docs/race.gif for the README: the Race itself, in Chromium, one picture a moment.

python sources/pictures/race_loop.py

Needs Debian's Chromium and the packages of ``pip install -e '.[dev]'``.
"""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from course_lib.widgets import Race
from course_lib.widgets.base import standalone_page

TARGET = Path(__file__).parents[2] / "docs" / "race.gif"
MOMENTS, MS, HOLD_MS = 80, 100, 2500  # ten seconds, the end included
WIDTH, COLOURS = 1200, 64

# nobody drags or presses in a film: no handles, no flag to plant, no button; and some ground around it
FILM = """.fac .fac-race-title { position: relative; z-index: 1; }
.fac .fac-race-words { display: none; } .fac .fac-race-play { visibility: hidden; }
.fac :is(.fac-knob, .fac-knob-way, .fac-t-hand, .fac-tag, .fac-race-tile) { display: none; }
.fac .fac-race-canvas { opacity: 1 !important; }
.fac :is(.fac-race-flag, .fac-race-grab, .fac-race-foot, .fac-race-flag ~ text) { display: none; }
.fac .fac-race-name { display: inline; }
.fac [data-fac-part=race-picture] { background: #fff; outline: 10px solid #fff; }
.fac { padding: 12px; border: 0; }"""


def main() -> None:
    """Film one run of both lanes, and write it as a loop."""
    race = Race(n=512, d=64, block_q=128, block_k=128)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": WIDTH, "height": 1000}, color_scheme="light")
        page.set_content(standalone_page(race))
        page.wait_for_selector(".fac-race canvas")
        page.add_style_tag(content=FILM)
        frames = [picture(page, moment / (MOMENTS - 1)) for moment in range(MOMENTS)]
        browser.close()
    both = Image.new("RGB", (frames[0].width, 2 * frames[0].height))  # all colours that occur
    both.paste(frames[0], (0, 0))
    both.paste(frames[-1], (0, frames[0].height))
    palette = both.quantize(COLOURS, dither=Image.Dither.NONE)
    loop = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    for frame in loop:  # the paper stays white
        table = frame.getpalette() or []
        frame.putpalette(
            [
                255 if min(table[i - i % 3 : i - i % 3 + 3]) > 247 else table[i]
                for i in range(len(table))
            ]
        )
    times = [MS] * (MOMENTS - 1) + [HOLD_MS]
    TARGET.parent.mkdir(exist_ok=True)
    loop[0].save(
        TARGET, save_all=True, append_images=loop[1:], duration=times, loop=0, optimize=True
    )
    print(f"written: {TARGET}, {TARGET.stat().st_size / 1e3:.0f} kB")


def picture(page: Page, at: float) -> Image.Image:
    """Return the picture of the Race at a moment between 0 and 1."""
    page.evaluate("at => { facModel.set('at', at); }", at)
    page.evaluate("() => new Promise((f) => requestAnimationFrame(() => requestAnimationFrame(f)))")
    end = page.eval_on_selector(".fac-race-play", "row => row.getBoundingClientRect().y")
    shot = page.screenshot(clip={"x": 0, "y": 0, "width": WIDTH, "height": end})
    return Image.open(io.BytesIO(shot)).convert("RGB")


if __name__ == "__main__":
    main()
