"""``progress()``: what is done, what is next; ``progress.export()`` to take it along."""

from __future__ import annotations

import json
from pathlib import Path

from course_lib import lessons, store
from course_lib.lessons import ExerciseFacts, Lesson


class _Progress:
    """Callable, so that students type ``progress()``; its repr says the same."""

    def __call__(self) -> None:
        """Print a line per lesson and what comes next."""
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

    def export(self, file: str | Path = "course_progress_export.json") -> Path:
        """Write the whole store to ``file`` (on Colab: download it, then ``progress.load`` it)."""
        file = Path(file)
        file.write_text(json.dumps(store.load(), indent=1, ensure_ascii=False), encoding="utf-8")
        print(f"Your progress is in {file.resolve()}")
        return file

    def load(self, file: str | Path) -> None:
        """Merge an exported file into the store: what was passed anywhere stays passed."""
        store.merge(json.loads(Path(file).read_text(encoding="utf-8")))
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


progress = _Progress()
