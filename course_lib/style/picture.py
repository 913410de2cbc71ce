"""A figure that follows the page: an SVG in its ink, a finding above it, a small note below.

The ink of the SVG is ``currentColor``, and coloured text is mixed into it, so a figure is readable
in either theme of JupyterLab, Notebook, Colab and exported pages, also when the theme changes while
the page is open. It is drawn twice, for a column of prose and for a narrow page; the page chooses.
"""

from __future__ import annotations

import html
import io
import re
from typing import TYPE_CHECKING, Any

from course_lib.style.look import PAGE_INK, rc_params, text_colour
from course_lib.style.palette import HUES
from course_lib.style.tokens import SHEET

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NARROW = 4.4  # inches: a notebook's output on a page of 480 px
_PIXELS = 96  # an inch of CSS
_FONT = "system-ui, sans-serif"
_SHEET = f"""<style>
.fac-figure {{ margin: 4px 0 12px; container-type: inline-size; max-width: 1056px; }}
.fac-figure figcaption {{ font: 600 16px/1.35 {_FONT}; margin: 0 0 6px; max-width: 42em; }}
.fac-figure small {{ display: block; font: 13px/1.4 {_FONT}; opacity: .8; margin-top: 4px; }}
.fac-figure svg {{ display: block; max-width: 100%; height: auto; overflow: visible; }}
.fac-grows {{ max-width: 1400px; {SHEET} }} .fac-grows figcaption {{ font-size: 20px; }}
.fac-grows svg.fac-wide {{ width: 100%; }}
@media (min-width: 1700px) {{
  .fac-grows {{ max-width: 1760px; }} .fac-grows figcaption {{ font-size: 24px; }}
  .fac-grows small {{ font-size: 15px; }}
}}
.fac-figure svg.fac-narrow {{ display: none; }}
@container (max-width: 600px) {{
  .fac-figure svg.fac-wide:not(:last-of-type) {{ display: none; }}
  .fac-figure svg.fac-narrow {{ display: block; }}
}}
</style>"""


def new_figure(
    rows: int = 1,
    columns: int = 1,
    *,
    narrow_height: float | None = None,
    grows: bool = False,
    **options: Any,
) -> tuple[Any, Any]:
    """Return a figure and its axes; a notebook shows it as a cell's value, without pyplot.

    Its methods beyond matplotlib's: ``says(finding, note="", alt="")``, which returns the figure.
    ``options`` go to matplotlib; ``width_ratios``, ``sharex`` and ``sharey`` to its axes.
    ``narrow_height`` (inches) is its height on a narrow page, where that is another one; one that
    ``grows`` is as wide as its page, up to the width of a widget. Its attribute ``narrow``
    may be another figure, laid out for such a page.
    """
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A figure with its finding, shown as SVG in the page's ink."""

        finding = note = alt = ""
        narrow: Figure | None = None  # what a narrow page shows in its place

        def says(self, finding: str, note: str = "", alt: str = "") -> Picture:
            self.finding, self.note, self.alt = finding, note, alt
            return self

        def _repr_html_(self) -> str:
            words = self.finding, self.note, self.alt
            return to_html(self, *words, narrow_height, grows, self.narrow)

        def __repr__(self) -> str:
            words = ". ".join(part for part in (self.finding, self.note) if part)
            return f"[figure: {words}]" if words else super().__repr__()

    ours = {"sharex", "sharey", "width_ratios", "height_ratios"}
    axes_options = {name: options.pop(name) for name in ours & set(options)}
    figure = Picture(layout="constrained", **options)
    return figure, figure.subplots(rows, columns, **axes_options)


def show(figure: Figure, finding: str, note: str = "", alt: str = "") -> None:
    """Display a figure: a sentence with its finding above it, device and shape small below.

    ``alt`` says for a screen reader what is drawn; without it finding and note do.
    """
    from IPython.display import HTML, display

    display(HTML(to_html(figure, finding, note, alt)))


def to_html(
    figure: Figure,
    finding: str = "",
    note: str = "",
    alt: str = "",
    narrow_height: float | None = None,
    grows: bool = False,
    narrow: Figure | None = None,
) -> str:
    """Return the figure as HTML that follows the page's theme and width."""
    alt = alt or ". ".join(part for part in (finding, note) if part) or "A figure"
    width, height = figure.get_size_inches()
    drawings = [svg(figure, alt, "fac-wide")]
    if narrow is not None:
        drawings.append(svg(narrow, alt, "fac-narrow"))
    elif width > _NARROW:
        try:
            figure.set_size_inches(_NARROW, narrow_height or height)
            drawings.append(svg(figure, alt, "fac-narrow"))
        finally:
            figure.set_size_inches(width, height)
    caption = f"<figcaption>{html.escape(finding)}</figcaption>" if finding else ""
    small = f"<small>{html.escape(note)}</small>" if note else ""
    kind = "fac-figure fac-grows" if grows else "fac-figure"
    return f'{_SHEET}<figure class="{kind}">{caption}{"".join(drawings)}{small}</figure>'


def svg(figure: Figure, alt: str, kind: str) -> str:
    """Return the figure as an ``<svg>`` in the page's ink, with ``alt`` as its name.

    Numbers that SVG needs for clips and hatches carry the kind and the size, so that two figures
    on a page do not borrow each other's.
    """
    import matplotlib

    out = io.StringIO()
    salt = f"{alt}{kind}"
    with matplotlib.rc_context({**rc_params(), "svg.hashsalt": salt}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*">', "<g>", text)  # names that nothing refers to
    text = re.sub(r"'DejaVu Sans'[^;\"]*", _FONT, text)
    width, height = (float(x) for x in re.findall(r'(?:width|height)="([\d.]+)pt"', text)[:2])
    head = (
        f'<svg class="{kind}" role="img" aria-label="{html.escape(alt)}" '
        f'width="{width / 72 * _PIXELS:.0f}" viewBox="0 0 {width:g} {height:g}" '
        'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
    )
    return in_page_ink(head + text[text.index(">") + 1 :])


def in_page_ink(text: str) -> str:
    """Return SVG text in which ink, and what is mixed with ink, follow the page."""
    text = text.replace(PAGE_INK, "currentColor")
    for name, hue in HUES.items():
        mixed = f"color-mix(in srgb, {hue.hex} {hue.text_share:.0%}, currentColor)"
        text = text.replace(text_colour(name), mixed)
    return text
