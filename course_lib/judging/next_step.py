"""One sentence on what to look at next, made from what the finding shows."""

from __future__ import annotations

import re

from course_lib.judging.finding import Finding
from course_lib.judging.picture import INFINITE, NAN, ErrorMap, TrafficBars, plural, span
from course_lib.judging.spec import STORED, Exercise, Mistake


def next_step(exercise: Exercise, finding: Finding, mistake: Mistake | None) -> str:
    """Return one sentence: the judge's own, or where to begin, the nearest place first."""
    picture = finding.picture
    if finding.property == "stays inside its tensors":
        return _about_addresses(finding)
    if finding.look:
        return finding.look
    if finding.property == STORED:
        return "print the addresses of the stores, program by program: which of them are missing?"
    if exercise.signature == "()":  # an answer worked out on paper: there is no input, no line
        return "work it out once more on paper, and compare each step with your answer."
    if mistake:
        where = f", and follow {_place(picture)} through it" if _in_tiles(picture) else ""
        return f"find where {exercise.function} does this{where}."
    if isinstance(picture, TrafficBars):
        return _about_traffic(picture)
    if isinstance(picture, ErrorMap):
        return _about_values(picture)
    if finding.property == "comes to an end":
        return "print the loop variable in every turn: does it get to its end?"
    if finding.property in ("the answer", "the values"):
        return "work this input out by hand or, if it is too large, a smaller one of its kind."
    return "mend this first; what else there is to check comes after it."


def shapes_that_do_not_meet(text: str, line: str) -> str:
    """Say what to change if an error of NumPy's or PyTorch's is about shapes that do not meet.

    ``line`` is the student's. A number for each row meets a matrix as a column; ``.T`` turns all
    the axes of a batch round.
    """
    if re.search(r"\.T\b", line) and "must match" in text:
        return "`x.T` turns all axes of x round, `x.mT` only the last two"
    told = re.search(r"be broadcast together|broadcast to a single shape", text)
    shapes = re.findall(r"\(((?:\d+, ?)*\d+),?\)", text) if told else []
    if len(shapes) < 2:
        return ""
    rows, matrix = sorted((re.findall(r"\d+", shape) for shape in shapes[:2]), key=len)
    if len(rows) > 1 or rows != matrix[-2:-1]:
        return ""
    says = f"({rows[0]},) is a number for each row of ({', '.join(matrix)})"
    return f"{says}: make a column of it, `x[:, None]`"


def _about_addresses(finding: Finding) -> str:
    """Say what lets such addresses through: what was measured, but for block pointers."""
    says = finding.says
    program = re.search(r"program \([\d, ]+\)", says)
    where = program.group() if program else "the last program"
    if "boundary_check=(0)" in says.replace(" ", ""):
        return "(0) is the number 0, and so no check at all: write boundary_check=(0,)."
    if re.search(r"block_ptr|boundary_check|tl\.(load|store)\(\s*\w+\s*[,)](?!.*mask)", says):
        return (
            f"that line has no mask (or, with a block pointer, no boundary_check for each axis): "
            f"which of its addresses in {where} must it leave out?"
        )
    if finding.look:
        return finding.look
    if "before its start" in says:
        return f"print the offsets of that line in {where}: which of them are negative, and why?"
    return f"print the addresses of that line in {where}: which of them does the mask let through?"


def _in_tiles(picture: object) -> bool:
    return isinstance(picture, ErrorMap) and bool(picture.tiles)


def _about_traffic(picture: TrafficBars) -> str:
    bar = picture.worst
    if bar.yours > bar.expected:
        return f"find what touches {bar.name}, and count how often those lines run."
    return f"find what should touch {bar.name}, and count how often it does."


def _about_values(picture: ErrorMap) -> str:
    place, wrong, tiles = _place(picture), picture.wrong_tiles, picture.tiles
    if wrong and len(wrong) < len(tiles):
        last = len(tiles) - 1
        if wrong == (last,) and tiles[last][1] - tiles[last][0] + 1 < picture.height:
            parts = plural(picture.word) if picture.is_strip else "rows and keys"
            return f"follow {place} by hand: it is short, so which of its {parts} exist?"
        right = next(t for t in range(len(tiles)) if t not in wrong)
        name = picture.tile_name
        return f"compare {place} with {name} {right}, which is right: what is different there?"
    if len(picture.wrong_slices) < len(picture.slices):
        kind = picture.kind
        return (
            f"compare a wrong {kind} with a right one: an offset that depends on its number, a "
            "length, or how large its numbers are, what is different there?"
        )
    first = _first_place(picture)
    if first == NAN:
        return (
            f"print the steps towards {place}, and look for the first that is NaN. Most often that "
            "is inf - inf, 0 * inf, 0 / 0 (also of an exp, a product or a sum that is too large or "
            "too small for its type), or memory that nothing stored."
        )
    if first == INFINITE:
        return (
            f"print the steps towards {place}, and look for the first that is infinite: an exp, a "
            "product or a sum that is too large for its type, a division by 0, or an infinity that "
            "was put there, by a mask say."
        )
    return f"work out {_first_row(picture)} by hand, and compare after every line."


def _first_place(picture: ErrorMap) -> int:
    """Return how the tile or the row is wrong that `_place` names."""
    at = int(picture.wrong_rows.argmax())
    rows = slice(at, at + 1)
    if picture.wrong_tiles:
        first, last = picture.tiles[picture.wrong_tiles[0]]
        rows = slice(first, last + 1)
    plane = picture.plane
    return int((plane[:, rows] if picture.is_strip else plane[rows]).max())


def _place(picture: ErrorMap | TrafficBars | None) -> str:
    """Return the first wrong tile with its rows, or the first wrong row."""
    assert isinstance(picture, ErrorMap)
    if not picture.wrong_tiles:
        return _first_row(picture)
    tile = picture.wrong_tiles[0]
    return f"{picture.tile_name} {tile} ({span(picture.word, *picture.tiles[tile])})"


def _first_row(picture: ErrorMap) -> str:
    return f"{picture.word} {int(picture.wrong_rows.argmax())}"
