"""What `Quiz` and `Predict` share: a question and its choices as text, as HTML, as a picture."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

from course_lib.style.picture import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def rich(text: object) -> str:
    """Return text as HTML, escaped: what stands between backticks is code, N x N a product."""
    product = re.sub(r"\b([A-Z]|\d+) x (?=([A-Z]|\d+|d)\b)", "\\1 × ", str(text))
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(product))


def check_question(question: object) -> None:
    """Raise a ValueError unless the question is a text."""
    if not isinstance(question, str) or not question.strip():
        raise ValueError(f"question must be a text, got {question!r}.")


def is_number(value: object) -> bool:
    """Return whether this is a finite number (a bool is none)."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def number(value: float, unit: str) -> str:
    """Return a number and its unit as text: whole ones whole, others to three digits."""
    whole = (float(value).is_integer() or abs(value) >= 1000) and abs(value) < 1e7
    text = f"{value:,.0f}" if whole else f"{value:.3g}"
    return f"{text} {unit}".strip()


def bar_width(size: float, sizes: Iterable[float]) -> float:
    """Return how long an option's bar is, in percent: the longest is 70, for words stand behind."""
    return 70 * size / (max(sizes) or 1)


def said(value: Any, unit: str) -> str:
    """Return an answer, number or option, as text."""
    return number(float(value), unit) if is_number(value) else str(value)


def asked(title: str, question: str, options: Sequence[str], unit: str) -> str:
    """Return a question and its choices as text."""
    lines = [f"{title}: {question}"]
    lines += [f"  {chr(ord('a') + i)}) {option}" for i, option in enumerate(options)]
    if not options:
        lines.append(f"  a number{f' in {unit}' if unit else ''}")
    return "\n".join(lines)


def asked_html(question: str, options: Sequence[str], folded: str) -> str:
    """Return a question and its choices as HTML, with what is folded away behind them."""
    items = "".join(f"<li>{rich(option)}</li>" for option in options)
    listed = f'<ol type="a">{items}</ol>' if items else ""
    return f"<div><p><strong>{rich(question)}</strong></p>{listed}{folded}</div>"


def text_figure(text: str) -> Figure:
    """Return text as a picture."""
    figure, axes = new_figure(figsize=(7, 3.4))
    axes.axis("off")
    axes.text(0, 1, text, va="top", wrap=True)
    return figure
