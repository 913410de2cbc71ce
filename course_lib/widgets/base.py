"""What all widgets share: one ES module each, a picture without a kernel, text and figure."""

from __future__ import annotations

import base64
import html
import io
import json
import os
import re
from collections.abc import Mapping
from functools import cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import anywidget
import traitlets

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STATIC = Path(__file__).parent / "static"


@cache
def static_text(*names: str) -> str:
    """Return files of ``static/`` joined into one text: a module is self-contained, no imports."""
    return "\n".join((_STATIC / name).read_text(encoding="utf-8") for name in names)


class CourseWidget(anywidget.AnyWidget):
    """An instrument: traits hold its state, one ES module draws it, `to_table` tells it in words.

    Attributes:
        presenter: large type, for the front of a room.
    """

    parts: ClassVar[tuple[str, ...]] = ()
    """What prose can point at: ``[the notes](#fac-stepper-notes)`` in a Markdown cell marks it."""

    presenter = traitlets.Bool(False).tag(sync=True)
    height_px = 480  # first height of the frame that stands in without a kernel

    def to_table(self) -> str:
        """Return what the widget shows as plain text."""
        raise NotImplementedError

    def to_figure(self) -> Figure:
        """Return what the widget shows as a matplotlib figure."""
        raise NotImplementedError

    def show(self, mode: str = "auto") -> None:
        """Display the widget; ``mode="iframe"`` shows the stand-in that needs no kernel.

        Raises:
            ValueError: for another mode.
        """
        from IPython.display import HTML, display

        if mode not in ("auto", "iframe"):
            raise ValueError(f"mode must be 'auto' or 'iframe', got {mode!r}.")
        display(self if mode == "auto" else HTML(self.fallback_html(picture=True)))

    def module_state(self) -> dict[str, Any]:
        """Return the traits that the ES module reads, as JSON values."""
        own = [name for name in self.trait_names(sync=True) if not name.startswith("_")]
        inherited = set(anywidget.AnyWidget.class_trait_names()) - {"presenter"}
        return {name: getattr(self, name) for name in sorted(set(own) - inherited)}

    def fallback_html(self, picture: bool | None = None) -> str:
        """Return HTML for pages without a kernel: the same module in a frame, and the text.

        Args:
            picture: add `to_figure` as an image for viewers that strip frames or scripts. It takes
                up to a second, so by default only where ``COURSE_PICTURES`` is set, as for export.
        """
        frame = html.escape(standalone_page(self))
        name = type(self).__name__
        if picture is None:
            picture = bool(os.environ.get("COURSE_PICTURES"))
        return (
            f'<iframe title="{name}, interactive" srcdoc="{frame}" loading="lazy" '
            f'style="width:100%;height:{self.height_px}px;border:0"></iframe>'
            f"<details><summary>{name} as text</summary>{self._image() if picture else ''}"
            f"<pre>{html.escape(self.to_table())}</pre></details>"
        )

    def _image(self) -> str:
        out = io.BytesIO()
        self.to_figure().savefig(out, format="png", dpi=80, facecolor="white")
        data = base64.b64encode(out.getvalue()).decode()
        return f'<p><img alt="{type(self).__name__}" src="data:image/png;base64,{data}"></p>'

    def still(self) -> str:
        """Return what stands in the frame until the module has drawn, or where scripts are off."""
        return (
            "<p>This picture moves where scripts may run: open the notebook in Jupyter or Colab, "
            f"or the built page in a browser.</p><pre>{html.escape(self.to_table())}</pre>"
        )

    def __repr__(self) -> str:
        return self.to_table()

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._with_text(super()._repr_mimebundle_(**kwargs))

    def _with_text(self, bundle: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Add the text and the stand-in; a live Jupyter prefers the widget over both."""
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        return {**data, "text/plain": repr(self), "text/html": self.fallback_html()}, metadata


def check_count(name: str, value: Any, most: int) -> None:
    """Raise TraitError unless ``value`` is a whole number from 1 to ``most``."""
    if isinstance(value, bool) or not 1 <= value <= most:
        raise traitlets.TraitError(f"{name} must be a whole number from 1 to {most}, got {value}.")


def monomial(coefficient: int, text: str) -> dict[str, Any]:
    """Return ``coefficient * product of symbols`` as data: ``monomial(2, "block_k d b")``."""
    powers: dict[str, int] = {}
    for symbol in text.split():
        powers[symbol] = powers.get(symbol, 0) + 1
    return {"coefficient": coefficient, "powers": powers}


def evaluate(term: Mapping[str, Any], values: Mapping[str, int]) -> int:
    """Return the value of a `monomial`; `termBytes` of common.js is its twin."""
    return term["coefficient"] * prod(values[name] ** p for name, p in term["powers"].items())


_SHIM = """
const listeners = new Map();
const model = {
  get: (name) => state[name],
  set(name, value) {
    state[name] = value;
    for (const f of listeners.get("change:" + name) ?? []) f();
  },
  save_changes() {},
  send() {},
  on(event, f) { listeners.set(event, [...(listeners.get(event) ?? []), f]); },
  off() {},
};
globalThis.facModel = model; // for the console and the tests
// A frame wears the theme of the page around it, not that of the system.
const wear = () => {
  let node = frameElement, paint = "";
  while ((node = node.parentElement) && /^(transparent|rgba\\(.*, 0\\)|)$/.test(paint)) {
    paint = getComputedStyle(node).backgroundColor;
  }
  const light = (paint.match(/[0-9.]+/g) ?? [255]).slice(0, 3).some((part) => part > 127);
  document.documentElement.setAttribute("theme", light ? "light" : "dark");
};
try {
  const page = frameElement.ownerDocument;
  wear();
  const watch = (node) => new MutationObserver(wear).observe(node, { attributes: true });
  watch(page.documentElement);
  watch(page.body);
} catch {} // a page of its own, or in a frame of another site
const el = document.getElementById("fac");
el.replaceChildren();
widget.render({ model, el });
globalThis.facRender = (el) => widget.render({ model, el }); // a second view
const fit = () => {
  try { frameElement.style.height = el.getBoundingClientRect().height + 24 + "px"; } catch {}
};
new ResizeObserver(fit).observe(el);
"""


def standalone_page(widget: CourseWidget) -> str:
    """Return a page that runs the module on a model of its own; it asks the network for nothing."""
    module = re.sub(r"^export default ", "const widget = ", str(widget._esm), flags=re.MULTILINE)
    module = re.sub(r"^export ", "", module, flags=re.MULTILINE)
    script = f"{module}\nconst state = {_json(widget.module_state())};\n{_SHIM}"
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>Course widget</title>'
        f'<style>{widget._css}</style><body class="fac-page"><div id="fac">{widget.still()}</div>'
        f'<script type="module">{script}</script>'
    )


def _json(state: dict[str, Any]) -> str:
    """Return the state as JSON that cannot end the script element around it."""
    return json.dumps(state).replace("<", "\\u003c")
