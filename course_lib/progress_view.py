"""``progress()``: what is done, what is next; ``progress.export()`` to take it along."""

from __future__ import annotations

import html
import json
import os
import sys
from math import ceil, sqrt
from pathlib import Path
from urllib.parse import quote

from course_lib import lessons, store
from course_lib.lessons import ExerciseFacts, Lesson
from course_lib.style.palette import hex_of
from course_lib.style.tokens import SHEET

_SHEET = f"""<style>
.fac-path {{ font: 15px/1.4 system-ui, sans-serif; container-type: inline-size;
  max-width: 1296px; {SHEET}; }}
.fac-path p {{ margin: 0 0 18px; }}
.fac-path a {{ color: inherit; }}
.fac-path p strong {{ display: inline-block; padding: 5px 14px 6px; margin-bottom: 6px;
  border-radius: 6px; background: {hex_of("hand")}; color: #fff; font-size: 1.2em; }}
.fac-path p strong > a {{ text-decoration: none; }}
.fac-path p small {{ font-size: 15px; font-weight: 400; white-space: nowrap; opacity: 1; }}
.fac-path ol {{ list-style: none; display: grid; grid-template-columns: minmax(0, 1fr); margin: 0;
  padding: 0; column-gap: 64px; }}
.fac-path li {{ position: relative; display: grid; grid-template-columns: 38px 1fr 160px;
  column-gap: 8px; align-items: center; min-height: 37px; margin: 0; padding: 0; }}
.fac-path li::before {{ content: ""; position: absolute; left: 13px; top: 0; height: 100%;
  border-left: 3px solid var(--fac-way); }}
.fac-path li.fac-done::before {{ border-color: currentColor; }}
.fac-path li:first-child::before {{ top: 14px; }}
.fac-path li:last-child::before {{ height: 14px; }}
.fac-path b {{ position: relative; display: grid; place-items: center; width: 28px; height: 28px;
  border-radius: 50%; background: var(--jp-layout-color0, Canvas); font-size: 13px;
  border: 3px solid color-mix(in srgb, currentColor 45%, transparent); box-sizing: border-box; }}
.fac-path .fac-done > b {{ border-color: currentColor;
  background: color-mix(in srgb, currentColor 22%, var(--jp-layout-color0, Canvas)); }}
.fac-path {{ --fac-way: color-mix(in srgb, currentColor 30%, var(--jp-layout-color0, Canvas));
  --fac-next: color-mix(in srgb, {hex_of("hand")} 60%, currentColor); }}
.fac-path .fac-here > b {{ border-color: var(--fac-next);
  box-shadow: 0 0 0 3px {hex_of("hand")}55; }}
.fac-path span {{ display: flex; flex-wrap: wrap; }}
.fac-path span > * {{ min-width: 20px; padding: 0 1px; height: 34px; display: grid;
  place-items: center; box-sizing: border-box; }}
.fac-path i {{ display: block; border-radius: 50%; box-sizing: border-box; /* its area: minutes */
  background: color-mix(in srgb, currentColor 16%, transparent);
  border: 1.2px solid color-mix(in srgb, currentColor 60%, transparent); }}
.fac-path p i {{ display: inline-block; vertical-align: middle; margin: 0 4px 2px; }}
.fac-path i.fac-passed {{ background: currentColor; border-color: currentColor; }}
.fac-path i.fac-next {{ border-color: var(--fac-next); box-shadow: 0 0 0 2px
  var(--jp-layout-color0, Canvas), 0 0 0 4.5px var(--fac-next); }} /* a ring: filled is done */
.fac-path li em {{ display: none; }}
.fac-path li > div {{ display: flex; flex-wrap: wrap; gap: 0 8px; align-items: baseline;
  justify-content: space-between; font-size: 14px; }}
.fac-path li small {{ opacity: .8; font-size: 13px; margin-left: auto;
  font-variant-numeric: tabular-nums; }}
@container (min-width: 900px) {{ /* as a book has it: down, then to the next column */
  .fac-path ol {{ grid-auto-flow: column; grid-template-columns: none;
    grid-auto-columns: minmax(0, 1fr); grid-template-rows: repeat(var(--fac-down), auto); }}
  .fac-path li em {{ display: block; flex: 1; align-self: center; min-width: 12px; margin: 0 4px;
    border-bottom: 1px solid color-mix(in srgb, currentColor 22%, transparent); }}
  .fac-path ol {{ position: relative; padding: 10px 0; }} /* down, across and up again */
  .fac-path .fac-turn::before {{ height: calc(100% + 10px); }}
  .fac-path .fac-turn + li::before {{ top: -10px; height: calc(100% + 10px); }}
  .fac-path ol::after, .fac-path .fac-turn::after, .fac-path .fac-turn + li::after {{
    content: ""; position: absolute; box-sizing: border-box; border: 0 solid var(--fac-way); }}
  .fac-path ol::after {{ left: 50%; top: 0; bottom: 0; border-left-width: 3px; }}
  .fac-path .fac-turn::after {{ left: 13px; bottom: -10px; width: calc(100% + 19px); height: 3px;
    border-bottom-width: 3px; }}
  .fac-path .fac-turn + li::after {{ left: -32px; top: -10px; width: 48px; height: 3px;
    border-top-width: 3px; }}
  .fac-path ol:has(> .fac-turn.fac-done)::after, .fac-path .fac-turn.fac-done::after,
  .fac-path .fac-turn.fac-done + li::after {{
    border-color: currentColor; }}
}}
</style>"""


class _Progress:
    """Callable, so that students type ``progress()``; its repr says the same."""

    def __call__(self) -> None:
        """Show the way through the lessons and what comes next: drawn in a notebook, else text."""
        ipython = sys.modules.get("IPython")
        if hasattr(ipython.get_ipython() if ipython else None, "kernel"):
            from IPython.display import display

            display(self)
        else:
            print(self)

    def __repr__(self) -> str:
        attempts = store.load()["attempts"]
        lines = [_lesson_line(lesson, attempts) for lesson in lessons.all_lessons()]
        following = next_exercise(attempts)
        lines.append(
            f"Next: {following.label} {following.function}: {following.title} "
            f"(about {following.minutes} min)"
            if following
            else "Everything is done."
        )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return path_html(store.load()["attempts"], store.path().parent / "exercises")

    def export(self, file: str | Path = "course_progress_export.json") -> Path:
        """Write the whole store to ``file`` (on Colab: download it, then ``progress.load`` it)."""
        file = Path(file)
        file.write_text(json.dumps(store.load(), indent=1, ensure_ascii=False), encoding="utf-8")
        print(f"Your progress is in {file.resolve()}")
        return file

    def load(self, file: str | Path) -> None:
        """Merge an exported file into the store: what was passed anywhere stays passed."""
        try:
            store.merge(json.loads(Path(file).read_text(encoding="utf-8")))
        except (ValueError, TypeError, AttributeError, RecursionError):
            print(f"{file} is no progress of this course: give the file that `export` wrote.")
            return
        self()


def next_exercise(attempts: dict) -> ExerciseFacts | None:
    """Return the first exercise, in the order of the lessons, that has not passed."""
    ahead = (e for lesson in lessons.in_order() for e in lesson.exercises)
    return next((e for e in ahead if not _passed(e, attempts)), None)


def _passed(exercise: ExerciseFacts, attempts: dict) -> bool:
    return bool(attempts.get(exercise.id, {}).get("passed"))


def _lesson_line(lesson: Lesson, attempts: dict) -> str:
    marks = " ".join(("✓" if _passed(e, attempts) else "·") + e.label for e in lesson.exercises)
    return f"Lesson {lesson.number:02}  {marks}"


def path_html(attempts: dict, folder: Path) -> str:
    """Return the lessons as stops on a path, a dot an exercise, filled if passed.

    A dot opens its exercise, if the notebook lies in ``folder``.
    """
    following = next_exercise(attempts)
    every = lessons.all_exercises()
    ahead = [exercise for exercise in every if not _passed(exercise, attempts)]
    said = "Everything is done."
    if following:
        name = f"Next: {following.label} {following.function}: {following.title}"
        words = f"{html.escape(name)}{_about(following)} →"
        said = (
            f"<strong>{_linked(following, folder, words)}</strong><br>"
            f"{len(every) - len(ahead)} of {len(every)} exercises are done, a dot each: "
            f"{_key(10)}, {_key(40)}; "
            f"about {_duration(sum(e.minutes for e in ahead))} are left."
        )
    down = ceil(len(lessons.all_lessons()) / 2)  # where there is room for two columns
    stops = "".join(
        _stop(lesson, attempts, following, folder, " fac-turn" if place == down else "")
        for place, lesson in enumerate(lessons.in_order(), 1)
    )
    way = f'<ol style="--fac-down: {down}">{stops}</ol>'
    return f'{_SHEET}<div class="fac-path"><p>{said}</p>{way}</div>'


def _stop(
    lesson: Lesson, attempts: dict, following: ExerciseFacts | None, folder: Path, turn: str
) -> str:
    ahead = [exercise for exercise in lesson.exercises if not _passed(exercise, attempts)]
    here = following is not None and following.lesson == lesson.number
    kind = ("fac-here" if here else "" if ahead else "fac-done") + turn
    title = html.escape(lesson.title)
    time = _duration(sum(e.minutes for e in ahead)).replace(" ", "\N{NO-BREAK SPACE}")
    left = time if ahead else ""  # its dots say what is done
    dots = "".join(
        _linked(
            e,
            folder,
            f'<i class="{_dot(e, attempts, following)}" style="{_large(e)}"></i>',
            _says(e, attempts),
        )
        for e in lesson.exercises
    )
    if here:
        title, left = f"<strong>{title}</strong>", f"you are here, {left}\N{NO-BREAK SPACE}left"
    return (
        f'<li class="{kind}"><b>{lesson.number}</b>'
        f"<div>{title} <em></em><small>{left}</small></div>"
        f"<span>{dots}</span></li>"
    )


def _about(exercise: ExerciseFacts) -> str:
    return f" <small>(about {exercise.minutes} min)</small>"


def _dot(exercise: ExerciseFacts, attempts: dict, following: ExerciseFacts | None) -> str:
    if _passed(exercise, attempts):
        return "fac-passed"
    return "fac-next" if exercise == following else ""


def _large(exercise: ExerciseFacts) -> str:
    """Return the size of a dot: its area is as large as the exercise takes long."""
    return _wide(exercise.minutes)


def _wide(minutes: int) -> str:
    side = f"{3.6 * sqrt(minutes):.1f}px"
    return f"width:{side};height:{side}"


def _key(minutes: int) -> str:
    """Return a dot and how long what it stands for takes."""
    return f'<i style="{_wide(minutes)}"></i>{minutes}\N{NO-BREAK SPACE}min'


def _says(exercise: ExerciseFacts, attempts: dict) -> str:
    state = "passed" if _passed(exercise, attempts) else f"{exercise.minutes} minutes"
    return html.escape(f"{exercise.label} {exercise.title}: {state}")


def _linked(exercise: ExerciseFacts, folder: Path, content: str, title: str = "") -> str:
    """Return the content as a link to its exercise, from the folder where the notebook runs."""
    says = f' title="{title}" aria-label="{title}"' if title else ""
    file = next(folder.glob(f"{exercise.lesson:02}_*.ipynb"), None)
    if file is None:
        return f'<span role="img"{says}>{content}</span>' if title else content
    there = quote(Path(os.path.relpath(file)).as_posix())
    return f'<a href="{there}#{quote(_heading(exercise, file))}"{says}>{content}</a>'


def _heading(exercise: ExerciseFacts, file: Path) -> str:
    """Return the anchor of an exercise's heading: its words, joined as JupyterLab joins them."""
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    texts = (cell["source"] for cell in cells if cell["cell_type"] == "markdown")
    heads = (line.lstrip("# ").strip() for text in texts for line in text if line.startswith("#"))
    wanted = exercise.label.rstrip("ab") + " "  # 6.4a and 6.4b stand under one heading
    return next((h.replace(" ", "-") for h in heads if h.startswith(wanted)), "")


def _duration(minutes: int) -> str:
    if minutes < 60:
        return f"{minutes} min"
    if minutes > 300 or minutes % 60 == 0:
        return f"{minutes / 60:.0f} h"
    return f"{minutes // 60} h {minutes % 60:02} min"


progress = _Progress()
