"""Each instrument is played by keyboard alone, from the top of the page to an answer.

Focus moves by Tab alone. (The Race and the TileStepper have theirs in files of their own.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from course_lib.widgets import (
    HBMAccountant,
    KVCacheCalculator,
    PageTable,
    Predict,
    Quiz,
    RooflineChart,
    ServerMemory,
    SramBudget,
    TileSchedule,
)

pytestmark = pytest.mark.browser

NAME = """() => { const n = document.activeElement;
  return (n.ariaLabel || n.labels?.[0]?.innerText || n.innerText || '').trim() }"""


class Hands:
    """A person without a mouse."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def at(self, name: str, *keys: str, kind: tuple[str, ...] = ()) -> Hands:
        """Go on by Tab to the next control (of a kind) whose name begins so; press the keys."""
        seen = []
        for _ in range(120):
            self.page.keyboard.press("Tab")
            seen.append(self.page.evaluate(NAME))
            if seen[-1].startswith(name) and (
                not kind or self.page.evaluate("document.activeElement.type") in kind
            ):
                break
        else:
            raise AssertionError(f"Tab never comes to {name!r}: {list(dict.fromkeys(seen))}")
        for key in keys:
            self.page.keyboard.press(key)
        return self

    def slides(self, name: str, *keys: str) -> Hands:
        return self.at(name, *keys, kind=("range",))

    def types(self, name: str, text: str) -> Hands:
        self.at(name, "Control+a", *text, "Enter", kind=("text", "number"))
        return self

    def reads(self, *sentences: str) -> Hands:
        """Wait until each stands on the page, or in a picture."""
        for sentence in sentences:
            words = "[...document.querySelectorAll('.fac, .fac svg text')].map((n) => n.innerText"
            wanted = f"{words} ?? n.textContent).join(' ').includes({sentence!r})"
            self.page.wait_for_function(wanted, timeout=5000)
        return self

    def has(self, **traits: Any) -> Hands:
        assert {name: self.page.evaluate(f"facModel.get('{name}')") for name in traits} == traits
        return self


def roofline(hands: Hands) -> None:
    """A T4 has its ridge elsewhere; N moves the points, the batch does not."""
    hands.at("GPU", "t").reads("T4 needs 203 FLOP for each byte").types("N", "512").has(n=512)
    hands.at("more", "Enter").slides("batch", "End").has(batch=4096, n=512)


def dial(hands: Hands) -> None:
    """From a prompt to one query of each of 32 heads that share their keys."""
    hands.slides("queries of a request", "End").has(queries=8192)
    hands.slides("queries of a request", "Home").slides("K/V heads", "Home")
    hands.has(queries=1, kv_heads=1).reads("32 heads × 1 query")


def sram(hands: Hands) -> None:
    """Too much, and smaller again until it fits; then one more stage."""
    hands.slides("B_q", "ArrowRight").has(block_q=256)
    hands.slides("B_q", "ArrowLeft", "ArrowLeft").has(block_q=64).reads("read 128 times")
    hands.at("Layout", "ArrowDown").has(buffers="kernel")
    hands.at("more: dtype", "Enter").slides("stages", "ArrowRight").has(stages=4)


def cache(hands: Hands) -> None:
    """A model that one GPU cannot hold, and the second GPU that it takes."""
    hands.at("Model", *"Llama-3-7").reads("do not fit on 1 × H100")
    hands.at("more", "Enter").slides("GPUs", "ArrowRight").has(gpus=2)
    hands.reads("2 H100s (158.4 GiB) hold ")


def pages(hands: Hands) -> None:
    """A fork shares its pages until it grows; then the pages get another size."""
    hands.at("more", "Enter").at("Fork", "Enter").at("Append", "Enter").reads("it got a copy: page")
    hands.at("End", "Space").types("slots per page", "8").has(page_size=8).reads("pages of 8")


def server(hands: Hands) -> None:
    runs = ServerMemory(pages=128, every=40).runs()
    hands.slides("rows of the pool", "ArrowRight").has(pages=128)
    hands.slides("ms between requests", "ArrowRight").has(every=40)
    hands.reads(*(f"{run['speed']:g} tokens a second" for run in runs.values()))
    hands.at("moment", "Home").has(at=0).reads("memory at 0.00 s")
    hands.page.keyboard.press("End")
    hands.reads("0 served")


def accountant(hands: Hands) -> None:
    """N by typing, then twice as many by one key."""
    hands.types("N", "2048").has(n=2048).slides("N", "ArrowRight").has(n=4096)


def schedule(hands: Hands) -> None:
    """The causal mask, three steps, and the end."""
    hands.at("Mask", "c").at("Next", "Enter", "Enter", "Space").has(step=3, mask="causal")
    hands.slides("Step", "End").reads("Step 10 of 10").at("more", "Enter")
    hands.reads("Skipping saves 37.5 %")


def quiz(hands: Hands) -> None:
    hands.at("No", "ArrowDown").at("Check", "Enter").reads("It is.")


def predict(hands: Hands) -> None:
    hands.types("Your guess", "64").at("Keep", "Enter").reads("64 MB")


PLAYS: dict[str, tuple[Callable[[], Any], Callable[[Hands], None]]] = {
    "RooflineChart": (RooflineChart, roofline),
    "the roofline's dial": (lambda: RooflineChart(view="dial", heads=32, kv_heads=8), dial),
    "SramBudget": (SramBudget, sram),
    "KVCacheCalculator": (KVCacheCalculator, cache),
    "PageTable": (PageTable, pages),
    "ServerMemory": (ServerMemory, server),
    "HBMAccountant": (HBMAccountant, accountant),
    "TileSchedule": (TileSchedule, schedule),
    "Quiz": (lambda: Quiz("Which?", [("No", False, "Not."), ("Yes", True, "It is.")]), quiz),
    "Predict": (lambda: Predict("key", "How many?", unit="MB"), predict),
}


@pytest.mark.parametrize("name", PLAYS)
@pytest.mark.few(4)
def test_a_playthrough_by_keyboard_alone(mount, check_page, name):
    make, play = PLAYS[name]
    page = mount(make(), reduced=True)
    play(Hands(page))
    check_page(page)
