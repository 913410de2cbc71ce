"""Each of the course's misconceptions is exposed somewhere, and whoever has it is told so.

Where it shows:
    wrong(exercise, kind, name)       a submission of the corpus fails for it (`test_submissions`)
    answer(exercise, changes, name)   a wrong answer to a question gets its name
    quiz(lesson, cell, option)        an option (or a number) that the lesson's quiz calls wrong
    predict(lesson, key, option)      a prediction that the lesson's next cells refute

23 (bigger tiles always win) and 32 (decode gains as much) belong to later lessons.
"""

from __future__ import annotations

import ast
import json
import re
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from corpus import corpus
from helpers import ROOT

from course_lib.checking import report_for
from course_lib.specs import find
from course_lib.specs.lesson_06.on_a_gpu import FINE, ON_A_GPU

# --- where a misconception shows, and the proof of it ---------------------------------------------


def wrong(exercise: str, kind: str, name: str) -> None:
    assert (kind, name) in [sample.expected for sample in corpus("wrong", exercise)]


def answer(exercise: str, changes: object, name: str) -> None:
    """Check the right answer with these changes: a dict's entries, or another answer."""
    spec = find(exercise)
    given = changes
    if isinstance(changes, dict):
        given = dict(spec.truth())
        for key, value in changes.items():
            given[key] = given[key] | value if isinstance(value, dict) else value

    def function():
        return given

    function.__name__ = spec.function
    report = report_for(function, seed=1)
    assert report.misconception == name, report.text()


def quiz(lesson: int, cell: str, option: str | float) -> None:
    (call,) = calls(code_of(lesson)[cell], "Quiz")
    given = dict(zip(("question", "options"), call.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords}
    if "answer" in given:
        number = eval(ast.unparse(given["answer"]), {"np": np})
        assert abs(number - option) > 0.01 * abs(number)
        return
    rows = [option.elts[:2] for option in given["options"].elts]  # what follows may be computed
    options = {ast.literal_eval(text): ast.literal_eval(right) for text, right in rows}
    assert options[option] is False


def predict(lesson: int, key: str, option: str | float) -> None:
    """The cell that asks offers the option (or a number is asked for); another is revealed."""
    cells = code_of(lesson)
    (asked,) = (c for source in cells.values() for c in calls(source, "Predict") if key in said(c))
    variable = next(
        node.targets[0].id
        for source in cells.values()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign) and key in said(node.value)
    )
    revealed = next(call.args[0] for s in cells.values() for call in calls(s, f"{variable}.reveal"))
    offered = {k.arg: k.value for k in asked.keywords}.get("options")
    assert offered is None or option in ast.literal_eval(offered)
    scope: dict = {}
    named = {node.id for node in ast.walk(revealed) if isinstance(node, ast.Name)}
    defined = [
        n for s in cells.values() for n in ast.parse(s).body if getattr(n, "name", "") in named
    ]
    exec("\n".join(map(ast.unparse, defined)), scope)
    truth = eval(ast.unparse(revealed), scope)
    assert truth != option if isinstance(truth, str) else abs(truth - option) > 0.01 * truth


def said(node: ast.AST) -> list[object]:
    """Return the constants that a call was given, or nothing."""
    return [a.value for a in getattr(node, "args", []) if isinstance(a, ast.Constant)]


def calls(source: str, name: str) -> list[ast.Call]:
    nodes = ast.walk(ast.parse(source))
    return [n for n in nodes if isinstance(n, ast.Call) and ast.unparse(n.func) == name]


@cache
def code_of(lesson: int) -> dict[str, str]:
    """Return the code cells of a built notebook, by their id."""
    (file,) = Path(ROOT / "notebooks").glob(f"{lesson:02}_*.ipynb")
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    code = {c["id"]: "".join(c["source"]) for c in cells if c["cell_type"] == "code"}
    return {name: re.sub(r"(?m)^(\s*)[!%].*", r"\1pass", source) for name, source in code.items()}


# --- the table ------------------------------------------------------------------------------------

W, A, Q, P = (partial(partial, f) for f in (wrong, answer, quiz, predict))  # run later
KNOWN = "misconception"

TABLE = {
    1: (
        "the streaming softmax approximates",
        Q(7, "quiz-approximate", "True: the softmax is never complete."),
    ),
    2: (
        "Flash saves FLOPs",
        Q(7, "quiz-fewer-flops", "It does fewer floating-point operations."),
        P(3, "3-exps", "fewer exponentials"),
    ),
    3: (
        "the matmuls are naive's cost",
        A("1.1", (9, 2), "the matmuls dominate"),
    ),
    4: (
        "scaling and masking are free",
        W("1.4", "property", "makes four trips"),
        Q(1, "quiz-mask", 6),
    ),
    5: (
        "K and V are read once in all",
        A("4.5", {"k_times": 1}, "K and V are read once in all"),
        Q(4, "quiz-reloads", 1),
    ),
    6: (
        "re-reads always, or never, reach DRAM",
        P(4, "4-dram-causal", "about half"),
        P(4, "4-dram-causal", "about the same"),
    ),
    7: ("O(N) memory is O(N) traffic", A("4.5", {"k_growth": 2}, "O(N) memory is O(N) traffic")),
    8: (
        "65 times fewer bytes is 65 times faster",
        Q(2, "quiz-97", "Yes: time is proportional to bytes."),
    ),
    9: (
        "the loss at short N is about bytes",
        Q(2, "quiz-short", "A kernel that moves half the bytes"),
        W("2.3", KNOWN, "overhead is missing"),
    ),
    10: ("4 times faster attention is a 4 times faster model", P(2, "2-amdahl", 4)),
    11: (
        "only l is rescaled",
        A("3.1", {"first": {"o2": 95.265, "answer": 87.69}}, "O is not rescaled"),
        W("3.3", KNOWN, "O is not rescaled"),
    ),
    12: (
        "alpha is inverted",
        A(
            "3.1",
            {"first": {"alpha": 20.086, "l2": 28.493, "o2": 757.82, "answer": 26.60}},
            "alpha is inverted",
        ),
        W("3.3", KNOWN, "alpha is inverted"),
    ),
    13: (
        "each pile has its own maximum",
        A(
            "3.1",
            {"reversed": {"l2": 2.3862, "o2": 95.265, "answer": 39.92}},
            "each pile uses its own maximum",
        ),
        W("3.3", KNOWN, "each pile uses its own maximum"),
    ),
    14: (
        "the maximum is optional",
        W("1.2", KNOWN, "no maximum is subtracted"),
        W("3.3", KNOWN, "no maximum is subtracted"),
    ),
    15: (
        "the maximum may start at 0",
        W("3.3", KNOWN, "a very negative maximum is replaced"),
        W("7.4", KNOWN, "a very negative maximum is replaced"),
    ),
    16: ("divide after each tile", W("3.3", KNOWN, "divided after every pile")),
    17: (
        "the order of the piles matters",
        W("3.4", KNOWN, "m is taken from b"),
        W("3.4", KNOWN, "only a is rescaled"),
    ),
    18: (
        "masked means score zero",
        W("5.3", KNOWN, "masked means score zero"),
        W("3.3", KNOWN, "masked keys count as score 0"),
    ),
    19: ("exp(-inf - (-inf)) is 0", W("3.4", KNOWN, "a pile without keys gives NaN")),
    20: ("causal always saves half", Q(4, "quiz-causal", 50)),
    21: ("diagonal tiles need no mask", W("4.4", KNOWN, "diagonal tiles are called full")),
    22: (
        "each tile's output is written",
        W("4.2", KNOWN, "each tile's output is written"),
        W("4.6", "property", "stores o once"),
    ),
    24: (
        "smaller tiles cut the re-reads",
        A("4.5", {"k_times_tile_16": 1}, "smaller tiles cut the re-reads"),
    ),
    25: (
        "a program is a thread",
        A("5.1", (2, 2, 1), "a program is taken for a thread"),
        Q(5, "quiz-thread", 1000),
    ),
    26: (
        "programs run in order",
        A("6.4a", {"total": FINE}, "programs run in order"),
        W("6.4b", "property", "does not race"),
        Q(5, "quiz-order", "It finds it too: 4 comes before 5"),
    ),
    27: (
        "green on the CPU works on a GPU",
        A("6.4a", dict.fromkeys(ON_A_GPU, FINE), "green on the CPU works on a GPU"),
        Q(6, "quiz-green", "It compiles for a GPU"),
    ),
    28: (
        "a float32 dot is exact",
        Q(6, "quiz-green", "Its float32 products are exact on a GPU"),
        P(6, "6-tf32", "about 0.00001"),
    ),
    29: (
        "p may stay float32 against a float16 v",
        W("7.1", KNOWN, "two dtypes meet in tl.dot"),
        P(6, "6-mixed", "it converts v to float32"),
    ),
    30: (
        "lse is m + l, or base 2",
        W("7.3", KNOWN, "lse is m + l"),
        W("7.3", KNOWN, "lse in base 2"),
    ),
    31: (
        "Flash shrinks the KV cache, or is paging",
        Q(2, "quiz-cache", "It makes the cache N/d times smaller."),
        Q(2, "quiz-cache", "It stores the cache in pages."),
    ),
    33: (
        "the compiler never, or always, does this",
        Q(2, "quiz-compiler", "A compiler never removes the trips."),
        Q(2, "quiz-compiler", "A compiler makes FlashAttention unnecessary."),
    ),
    34: (
        "weights can no longer be inspected",
        Q(7, "quiz-inspect", "It cannot be known: the scores were thrown away."),
    ),
}


@pytest.mark.parametrize("number", TABLE)
def test_the_misconception_is_exposed(number):
    _, *exposures = TABLE[number]
    for expose in exposures:
        expose()


def test_the_table_is_complete():
    assert set(TABLE) | {23, 32} == set(range(1, 35))
    assert all(len(row) > 1 for row in TABLE.values())
