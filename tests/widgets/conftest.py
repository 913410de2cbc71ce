"""A bare page for each widget: the shipped module on the shim that pages without a kernel use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def pages() -> list[Any]:
    """The pages that this run's tests take turns with: a new one is a process and 0.7 CPU seconds.

    They close with the browser.
    """
    return []


@pytest.fixture
def blank(browser: Any, pages: list[Any]) -> Iterator[Callable[..., Any]]:
    """Return ``blank(width=, ...) -> page``; errors on it, and asking the network, fail the test.

    Each call gives an empty page that this test has not had yet, or the last one ``again``.
    """
    used: list[Any] = []
    wrong: list[str] = []
    listeners = {
        "console": lambda m: m.type == "error" and wrong.append(m.text),
        "pageerror": lambda error: wrong.append(str(error)),
        "request": lambda r: r.url.startswith("file:") or wrong.append(f"request: {r.url}"),
    }

    def another() -> Any:
        if len(used) == len(pages):
            pages.append(browser.new_context(offline=True).new_page())
            pages[-1].set_default_timeout(5000)
        page = pages[len(used)]
        used.append(page)
        for event, listener in listeners.items():
            page.on(event, listener)
        return page

    def blank(
        *,
        width: int = 900,
        height: int = 900,
        dark: bool = False,
        reduced: bool = False,
        again: bool = False,
    ) -> Any:
        page = used[-1] if used and again else another()
        if again:
            emptied(page)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce" if reduced else "no-preference",
        )
        page.mouse.move(0, 0)
        return page

    yield blank
    for page in used:
        emptied(page)  # and its errors told
        for event, listener in listeners.items():
            page.remove_listener(event, listener)
    assert not wrong, f"the page complained or asked the network: {wrong}"


# What outlives a document that is written anew; its nodes and their listeners do not.
STOP = """() => {
  for (let timer = setTimeout(() => {}); timer; timer--) clearTimeout(timer);
  for (let frame = requestAnimationFrame(() => {}); frame; frame--) cancelAnimationFrame(frame);
  for (const own of [globalThis, document]) {
    for (const name of Object.keys(own)) if (name.startsWith("fac")) delete own[name];
  }
}"""


def emptied(page: Any) -> None:
    """Take away what was drawn there; to go to another page takes longer than to draw one."""
    if page.url != "about:blank":
        page.goto("about:blank")
        return
    page.evaluate(STOP)
    page.set_content("")


@pytest.fixture
def mount(blank: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``mount(widget, width=, ...) -> page``: the widget alone on a page of `blank`.

    Who mounts one after the other takes the page ``again``: another one is another process.
    """
    from course_lib.widgets.base import standalone_page

    def mount(widget: Any, **settings: Any) -> Any:
        page = blank(**settings)
        page.set_content(standalone_page(widget))
        page.wait_for_selector(".fac")
        return page

    return mount


@pytest.fixture
def touched(browser: Any) -> Iterator[Callable[[Any], Any]]:
    """Return ``touched(widget) -> page``: the widget alone on a phone, which has no keyboard."""
    from course_lib.widgets.base import standalone_page

    phone = {"width": 480, "height": 800}
    context = browser.new_context(offline=True, viewport=phone, has_touch=True, is_mobile=True)

    def touched(widget: Any) -> Any:
        page = context.new_page()
        page.set_content(standalone_page(widget))
        page.wait_for_selector(".fac")
        return page

    yield touched
    context.close()


@pytest.fixture
def check_page() -> Callable[[Any], None]:
    """Return a check of what holds for every widget's page, whatever it shows."""
    return _check_page


def _check_page(page: Any) -> None:
    bare = page.eval_on_selector_all(
        "button, input, select, textarea, summary, a[href], [tabindex]",
        "ns => ns.filter(n => n.dataset.lmSuppressShortcuts !== 'true').map(n => n.outerHTML)",
    )
    assert not bare, f"JupyterLab would swallow the keys of {bare}"
    nameless = page.evaluate(
        """() => [...document.querySelectorAll('button, input, select, svg')].filter((n) => {
             const labelled = n.labels?.length || n.getAttribute('aria-label')
               || n.getAttribute('aria-labelledby') || n.getAttribute('aria-hidden');
             return !labelled && !(n.tagName === 'BUTTON' && n.textContent.trim());
           }).map((n) => n.outerHTML.slice(0, 120))"""
    )
    assert not nameless, f"a screen reader has no name for {nameless}"
    classes = page.eval_on_selector_all(
        ".fac, .fac *", "ns => [...new Set(ns.flatMap(n => [...n.classList]))]"
    )
    assert [c for c in classes if not c.startswith("fac")] == []
    overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert overflow <= 0, f"the page is {overflow} px too wide"
