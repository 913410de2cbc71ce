"""Lesson 04's checks: solutions pass, and what the corpus of submissions does not show."""

from __future__ import annotations

import ast
import importlib.util
import inspect
from pathlib import Path

import numpy as np
import pytest
from helpers import code, module_from, report_on, solutions, stubs

from course_lib.accounting.memory import FlatMemory
from course_lib.attention import masks
from course_lib.attention.truth import attention_float64
from course_lib.checking import report_for
from course_lib.judging.report import Verdict
from course_lib.specs import find, of_lesson
from course_lib.specs.lesson_04.window import window_truth

NAMES = [exercise.function for exercise in of_lesson(4)]


def report(function, name, seed=7):
    function.__name__ = name
    return report_for(function, seed=seed)


SOURCE = code(4, lambda file, cell: "" if cell.slug == "loads-only" else cell.source)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.few(1, each="name")
def test_the_solution_passes(name, seed):
    found = report_for(getattr(solutions(4), name), seed=seed)
    assert found.passed, found.text()


@pytest.mark.parametrize("name", NAMES)
def test_the_stub_is_not_attempted(name):
    assert report_for(getattr(stubs(4), name), seed=1).verdict is Verdict.NOT_ATTEMPTED


def test_every_mistake_has_one_name_per_exercise_and_a_sentence():
    for exercise in of_lesson(4):
        said = {(mistake.name, mistake.says) for mistake in exercise.mistakes}
        assert len({name for name, _ in said}) == len(said)


@pytest.mark.parametrize(
    ("id", "says"),
    [
        ("4.2/wrong/alpha_is_a_row", "make a column of it, `x[:, None]`."),
        ("4.6/wrong/mask_is_a_row", "make a column of it, `x[:, None]`."),
        ("1.4/wrong/t_for_mt", "`x.T` turns all axes of x round, `x.mT` only the last two."),
        ("4.3/wrong/q_loop_to_the_last_key", "a loop takes tiles of q past its end"),
        ("4.3/wrong/k_outside", "your loop over K/V tiles is the outer one"),
        ("4.3/wrong/k_tile_size_ignored", "for each of 3 Q tiles"),
        ("4.4/wrong/never_full", "yours is 'partial'; that is not it."),
    ],
)
def test_the_message_says_where_to_look(id, says):
    assert says in " ".join(report_on(id).lines)


# --- 4.1 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [None, [], 3, [0, 128, 257], "(0, 128)"])
def test_other_bounds_fail(answer):
    found = report(lambda n, tile: answer, "tile_bounds")
    assert found.verdict is Verdict.INCORRECT


# --- 4.2 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["attend_q_tile", "tiled_attention", "flash_program"])
def test_other_parameters_get_a_sentence(name):
    found = report(lambda q: q, name)
    assert found.failed_property == "signature"


# --- 4.4 ----------------------------------------------------------------------------------------


def asked():
    """Return the tiles of 4.4's check, and the right word for each."""
    exercise = find("4.4")
    (case,) = exercise.cases(np.random.default_rng(1))
    return [where for _, where in case.args[0]], exercise.truth(*case.args)


def test_the_truth_about_tiles_is_that_of_the_masks():
    """The spec looks at pairs, ``masks.causal`` at corners: two independent answers agree."""
    mask, compared = masks.causal(), 0
    for (r0, r1, c0, c1, *rest), word in zip(*asked(), strict=True):
        offset = rest[0] if rest else 0
        n_q = max(r1, c1 - offset) + 1
        if n_q + offset >= c1:
            compared += 1
            assert word == str(mask.classify(r0, r1, c0, c1, n_q, n_q + offset))
    assert compared > 10


def test_every_class_is_asked_for():
    _, words = asked()
    assert min(words.count(word) for word in ("skip", "partial", "full")) >= 3


def test_the_first_wrong_tile_is_told():
    found = report(lambda r0, r1, c0, c1, offset=0: "full", "classify_tile")
    assert "A tile on the diagonal: rows" in found.text()


@pytest.mark.parametrize("answer", [None, "skip", "partial", "full", True, "FULL"])
def test_constant_classes_fail(answer):
    found = report(lambda r0, r1, c0, c1, offset=0: answer, "classify_tile")
    assert found.verdict is Verdict.INCORRECT


# --- 4.5 ----------------------------------------------------------------------------------------

RIGHT = {"q_times": 1, "k_times": 4, "k_times_tile_16": 16, "k_growth": 4, "size_growth": 2}
LOADS_WRONG = {
    "K and V are read once in all": {"k_times": 1, "k_times_tile_16": 1, "k_growth": 2},
    "Q is loaded again for every K tile": {"q_times": 4},
    "smaller tiles cut the re-reads": {"k_times_tile_16": 1},
    "tiles make no difference to the re-reads": {"k_times_tile_16": 4},
    "O(N) memory is O(N) traffic": {"k_growth": 2},
    "the space grows as the traffic does": {"size_growth": 4},
}


@pytest.mark.parametrize("mistake", LOADS_WRONG)
def test_wrong_predictions_are_recognised(mistake):
    found = report(lambda: RIGHT | LOADS_WRONG[mistake], "predict_loads")
    assert found.misconception == mistake


def test_the_ledger_agrees_with_the_written_answers():
    (exercise,) = (e for e in of_lesson(4) if e.function == "predict_loads")
    assert exercise.truth() == RIGHT


@pytest.mark.parametrize(
    "answer", [None, {}, 4, dict.fromkeys(RIGHT, 1), {**RIGHT, "k_times": "4 x"}]
)
def test_other_predictions_fail(answer):
    assert report(lambda: answer, "predict_loads").verdict is Verdict.INCORRECT


# --- 4.6 ----------------------------------------------------------------------------------------


def test_what_leaves_its_tensors_is_told_with_the_program():
    found = report_on("4.6/wrong/load_without_mask")
    assert "Program (" in found.text()


def test_peeking_past_the_books_fails():
    """A program reaches only what is booked: neither ``memory.array`` nor what lies behind it."""
    change = ("k_tile = load_tile(memory, k, keys, n_k, k_row, head_dim)", "k_tile = PEEK")
    peek = "load_tile(FREE(memory), k, keys, n_k, k_row, head_dim)"
    source = SOURCE.replace(change[0], change[1].replace("PEEK", peek))
    source += """

class FREE:
    def __init__(self, memory):
        self.memory = memory

    def load(self, at, mask, other):
        cells = self.memory._cells
        return np.where(mask, cells[np.where(mask, at, 0)], other)
"""
    found = report_for(module_from(source).flash_program, seed=3)
    assert "memory._cells is not for programs" in found.text().replace("\n  ", " ")


def test_the_program_has_the_shape_of_the_kernel():
    """Lesson 07 shows both side by side: same names and order, statement by statement."""
    program = ast.parse(inspect.getsource(solutions(4).flash_program)).body[0]
    file = importlib.util.find_spec("course_lib.kernels.flash_forward").origin  # not imported
    kernel = next(
        node
        for node in ast.parse(Path(file).read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name == "flash_forward"
    )

    def assigned(function):
        found = []
        for node in ast.walk(function):
            targets = node.targets if isinstance(node, ast.Assign) else []
            targets = [node.target] if isinstance(node, ast.AugAssign) else targets
            found += [(node.lineno, t.id) for t in targets if isinstance(t, ast.Name)]
        return [name for _, name in sorted(found)]

    lines = iter(assigned(kernel))
    assert all(name in lines for name in assigned(program)), "not a subsequence of the kernel"
    theirs = [a.arg.lower() for a in kernel.args.args]
    ours = [a.arg for a in program.args.args if a.arg not in ("pid", "memory")]
    remaining = iter(theirs)
    assert all(name in remaining for name in ours)


def test_one_program_writes_its_own_rows_only():
    q, k, v = np.random.default_rng(0).standard_normal((3, 40, 8)).astype(np.float32)
    memory = FlatMemory()
    at = [memory.place(name, x) for name, x in zip("qkvo", (q, k, v, 0 * q), strict=True)]
    strides = [40 * 8, 8] * 4
    solutions(4).flash_program((1, 0), memory, *at, *strides, 40, 40, 8**-0.5, 8, 16, 16)
    o = memory.array("o")
    np.testing.assert_allclose(o[16:32], attention_float64(q, k, v)[0][16:32], atol=1e-5)
    assert not o[:16].any()
    assert not o[32:].any()


# --- 4 star -------------------------------------------------------------------------------------


def test_the_window_truth_is_the_window_pair_by_pair():
    q, k, v = np.random.default_rng(2).standard_normal((3, 2, 20, 4))
    allowed = np.array([[0 <= i + 13 - j < 6 for j in range(20)] for i in range(7)])
    expected = attention_float64(q[:, :7], k, v, allowed=allowed)[0]
    np.testing.assert_array_equal(window_truth(q[:, :7], k, v, 6)[0], expected)


def test_tile_sizes_that_change_places_in_the_signature_are_told():
    def tiled_attention(q, k, v, block_k, block_q):
        raise AssertionError("it is not called")

    says = report_for(tiled_attention, seed=1).text(width=999)
    assert "block_k, block_q stand in another order than block_q, block_k" in says
