"""``progress()``: what is done, what is next; ``progress.export()`` to take it along."""

from __future__ import annotations

import html
import json
import os
import sys
from pathlib import Path
from urllib.parse import quote

from course_lib import lessons, store
from course_lib.lessons import ExerciseFacts, Lesson
from course_lib.style.palette import hex_of
from course_lib.style.tokens import SHEET

_SHEET = f"""<style>
.fac-path {{ font: 15px/1.4 system-ui, sans-serif; container-type: inline-size;
  max-width: 1296px; {SHEET}; --fac-page: var(--jp-layout-color0, Canvas);
  --fac-ahead: color-mix(in srgb, currentColor 20%, var(--fac-page));
  --fac-scale: calc((100% - 104px) / var(--fac-most)); /* a minute; its words stand behind a row */
  --fac-next: color-mix(in srgb, {hex_of("hand")} 60%, currentColor); }}
.fac-path p {{ margin: 0 0 6px; }}
.fac-path a {{ color: inherit; }}
.fac-path p strong {{ display: inline-block; padding: 5px 14px 6px; margin-bottom: 6px;
  border-radius: 6px; background: {hex_of("hand")}; color: #fff; font-size: 1.2em; }}
.fac-path p strong > a {{ text-decoration: none; }}
.fac-path p small {{ font-size: 15px; font-weight: 400; white-space: nowrap; }}
.fac-path i {{ display: block; height: 18px; box-sizing: border-box; background: var(--fac-ahead);
  border-right: 1.5px solid var(--fac-page); }}
.fac-path i.fac-passed {{ background: currentColor; }}
.fac-path i.fac-next {{ outline: 3px solid var(--fac-next); position: relative; }}
.fac-path .fac-whole {{ background: var(--fac-ahead); margin: 0 0 8px; }}
.fac-path .fac-segments {{ font-size: 14px; opacity: 0.8; margin-bottom: 10px; }}
.fac-path .fac-whole i {{ height: 22px; }}
.fac-path ol {{ list-style: none; margin: 0; padding: 0; }}
.fac-path li {{ display: grid; grid-template-columns: 28px 220px minmax(0, 1fr); column-gap: 10px;
  align-items: center; margin: 0; padding: 0; }}
.fac-path b {{ display: grid; place-items: center; width: 26px; height: 26px; font-size: 13px;
  border-radius: 50%; background: var(--fac-ahead); }}
.fac-path .fac-done > b {{ background: currentColor; }}
.fac-path .fac-done > b > u {{ color: var(--fac-page); }} .fac-path u {{ text-decoration: none; }}
.fac-path .fac-here > b {{ outline: 3px solid var(--fac-next); }}
.fac-path li > span {{ display: flex; align-items: center; height: 32px; background: /* hours */
  linear-gradient(90deg, transparent calc(100% - 103px), var(--fac-page) 0), /* with a name only */
  repeating-linear-gradient(90deg, var(--fac-ahead) 0 1px, transparent 1px
  calc(60 * var(--fac-scale))); }}
.fac-path li > span > :not(small) {{ height: 24px; flex: none; display: grid;
  align-items: center; }}
.fac-path li small {{ font-size: 13px; margin-left: 8px; white-space: nowrap;
  background: var(--fac-page); font-variant-numeric: tabular-nums; }}
.fac-path li.fac-hours > span {{ position: relative; height: 20px; background: none;
  grid-column: -2; }}
.fac-path li.fac-hours small {{ position: absolute; margin: 0; }}
@container (max-width: 700px) {{ /* the bar below its name */
  .fac-path li {{ grid-template-columns: 28px minmax(0, 1fr); }}
  .fac-path li:not(.fac-hours) {{ padding-top: 5px; }} .fac-path li > b {{ grid-row: 1 / 3; }}
  .fac-path li > span {{ grid-column: 2; height: 26px; }}
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
    """Return the lessons as rows on one scale of time, each exercise as long as its minutes.

    It is filled if passed, and opens its exercise, if the notebook lies in ``folder``.
    """
    following = next_exercise(attempts)
    every = lessons.all_exercises()
    ahead = [exercise for exercise in every if not _passed(exercise, attempts)]
    whole, left = (sum(e.minutes for e in some) for some in (every, ahead))
    said = "Everything is done."
    if following:
        name = f"Next: {following.label} {following.function}: {following.title}"
        words = f"{html.escape(name)}{_about(following)} →"
        said = (
            f"<strong>{_linked(following, folder, words)}</strong><br>"
            f"{_duration(whole - left)} of about {_duration(whole)} are done: "
            f"{len(every) - len(ahead)} of {len(every)} exercises."
        )
    done = f'<i class="fac-passed" style="width:{100 * (1 - left / whole):.2f}%"></i>'
    opens = " Press one to open it." if any(folder.glob("*.ipynb")) else ""
    segments = f"Each segment is one exercise, as long as its minutes.{opens}"
    most = max(sum(e.minutes for e in lesson.exercises) for lesson in lessons.all_lessons())
    hours = "".join(
        f'<small style="left:calc({60 * hour} * var(--fac-scale))">{hour} h</small>'
        for hour in range(most // 60 + 1)
    )
    axis = f'<li class="fac-hours" aria-hidden="true"><span>{hours}</span></li>'
    stops = "".join(_stop(lesson, attempts, following, folder) for lesson in lessons.in_order())
    return (
        f'{_SHEET}<div class="fac-path" style="--fac-most: {most}"><p>{said}</p>'
        f'<div class="fac-whole">{done}</div><p class="fac-segments">{segments}</p>'
        f"<ol>{axis}{stops}</ol></div>"
    )


def _stop(lesson: Lesson, attempts: dict, following: ExerciseFacts | None, folder: Path) -> str:
    ahead = [exercise for exercise in lesson.exercises if not _passed(exercise, attempts)]
    here = following is not None and following.lesson == lesson.number
    kind = "fac-here" if here else "" if ahead else "fac-done"
    title = html.escape(lesson.title)
    time = _duration(sum(e.minutes for e in ahead or lesson.exercises))
    bars = "".join(
        _linked(
            e,
            folder,
            f'<i class="{_bar(e, attempts, following)}"></i>',
            _says(e, attempts),
            f"width:calc({e.minutes} * var(--fac-scale))",
        )
        for e in lesson.exercises
    )
    if here:
        title, time = f"<strong>{title}</strong>", f"{time} left"
    return (
        f'<li class="{kind}"><b><u>{lesson.number}</u></b><div>{title}</div>'
        f"<span>{bars}<small>{time}</small></span></li>"
    )


def _about(exercise: ExerciseFacts) -> str:
    return f" <small>(about {exercise.minutes} min)</small>"


def _bar(exercise: ExerciseFacts, attempts: dict, following: ExerciseFacts | None) -> str:
    if _passed(exercise, attempts):
        return "fac-passed"
    return "fac-next" if exercise == following else ""


def _says(exercise: ExerciseFacts, attempts: dict) -> str:
    state = "passed" if _passed(exercise, attempts) else f"{exercise.minutes} minutes"
    return html.escape(f"{exercise.label} {exercise.title}: {state}")


def _linked(
    exercise: ExerciseFacts, folder: Path, content: str, title: str = "", style: str = ""
) -> str:
    """Return the content as a link to its exercise, from the folder where the notebook runs."""
    says = f' title="{title}" aria-label="{title}" style="{style}"' if title else ""
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
