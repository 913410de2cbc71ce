"""Lesson 04's checks: solutions pass, null answers fail, every named mistake is recognised."""

from __future__ import annotations

import ast
import importlib.util
import inspect
from pathlib import Path

import numpy as np
import pytest
from grading.helpers import code, module_from, solutions, stubs

from course_lib.accounting.memory import FlatMemory
from course_lib.attention import masks, naive
from course_lib.attention.truth import attention_float64
from course_lib.grading.check import report_for
from course_lib.grading.report import Verdict
from course_lib.grading.specs.lesson_04 import EXERCISES, _window_truth

NAMES = [exercise.function for exercise in EXERCISES]


def report(function, name, seed=7):
    function.__name__ = name
    return report_for(function, seed=seed)


SOURCE = code(4, lambda file, cell: "" if cell.slug == "loads-only" else cell.source)


def mutant(name, *changes):
    """Return the solved function with pieces of its source replaced: a realistic slip."""
    source = SOURCE
    for old, new in changes:
        assert source.count(old) == 1, f"{source.count(old)} times: {old}"
        source = source.replace(old, new)
    return getattr(module_from(source), name)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_the_solution_passes(name, seed):
    found = report_for(getattr(solutions(4), name), seed=seed)
    assert found.passed, found.text()


@pytest.mark.parametrize("name", NAMES)
def test_the_stub_is_not_attempted(name):
    assert report_for(getattr(stubs(4), name), seed=1).verdict is Verdict.NOT_ATTEMPTED


def test_every_mistake_has_one_name_per_exercise_and_a_sentence():
    for exercise in EXERCISES:
        said = {(mistake.name, mistake.says) for mistake in exercise.mistakes}
        assert len({name for name, _ in said}) == len(said)


NULLS = {
    "zeros": lambda q, k, v: np.zeros_like(q),
    "mean of V": lambda q, k, v: np.broadcast_to(v.mean(axis=-2, keepdims=True), q.shape).copy(),
    "V": lambda q, k, v: v.copy(),
    "the input": lambda q, k, v: q.copy(),
    "None": lambda q, k, v: None,
    "one row": lambda q, k, v: q[..., :1, :].copy(),
    "a tuple": lambda q, k, v: (naive(q, k, v), 0),
}


@pytest.mark.parametrize("null", NULLS)
def test_null_answers_fail(null):
    answer = NULLS[null]

    def attend_q_tile(q_tile, k, v, block_k):
        return answer(q_tile, k, v)

    def tiled_attention(q, k, v, block_q, block_k):
        return answer(q, k, v)

    def windowed_gqa_attention(q, k, v, window, block_q, block_k):
        return answer(q, k, v)

    for function in (attend_q_tile, tiled_attention, windowed_gqa_attention):
        assert report_for(function, seed=5).verdict is Verdict.INCORRECT


# --- 4.1 ----------------------------------------------------------------------------------------

BOUNDS_WRONG = {
    "the short last tile is dropped": lambda n, tile: [
        (i * tile, (i + 1) * tile) for i in range(n // tile)
    ],
    "the last tile runs past the end": lambda n, tile: [
        (i * tile, (i + 1) * tile) for i in range(-(-n // tile))
    ],
    "stop is the last row of the tile": lambda n, tile: [
        (i, min(i + tile, n) - 1) for i in range(0, n, tile)
    ],
    "one tile too many": lambda n, tile: [
        (i, min(i + tile, n)) for i in range(0, n // tile * tile + 1, tile)
    ],
}


@pytest.mark.parametrize("mistake", BOUNDS_WRONG)
def test_wrong_bounds_are_recognised(mistake):
    assert report(BOUNDS_WRONG[mistake], "tile_bounds").misconception == mistake


@pytest.mark.parametrize("answer", [None, [], 3, [0, 128, 257], "(0, 128)"])
def test_other_bounds_fail(answer):
    found = report(lambda n, tile: answer, "tile_bounds")
    assert found.verdict is Verdict.INCORRECT


# --- 4.2 ----------------------------------------------------------------------------------------

ADD_L = (
    "        l_sum = alpha * l_sum + p.sum(axis=1)\n        o = alpha[:, None] * o + p @ v[cols]"
)
STREAM_WRONG = {
    "O is not rescaled": (ADD_L, ADD_L.replace("alpha[:, None] * o", "o")),
    "l is not rescaled": (ADD_L, ADD_L.replace("alpha * l_sum", "l_sum")),
    "nothing is rescaled": (
        ADD_L,
        ADD_L.replace("alpha[:, None] * o", "o").replace("alpha * l_sum", "l_sum"),
    ),
    "the maximum starts at 0": ("m = np.full(n_rows, -np.inf)", "m = np.zeros(n_rows)"),
    "each tile's output is written": (
        ADD_L,
        "        l_sum = p.sum(axis=1)\n        o = p @ v[cols]",
    ),
    "one sum for the whole tile": (
        "p.sum(axis=1)\n        o = alpha[:, None]",
        "p.sum()\n        o = alpha[:, None]",
    ),
    "the scale is missing": ("k[cols].T / np.sqrt(d)  # (n_rows, block_k)", "k[cols].T"),
    "not divided by l": (
        "    return o / l_sum[:, None]\n    ### END SOLUTION",
        "    return o\n    ### END SOLUTION",
    ),
}


@pytest.mark.parametrize("mistake", STREAM_WRONG)
def test_wrong_loops_over_keys_are_recognised(mistake):
    old, new = STREAM_WRONG[mistake]
    # l_sum and o occur in 4★ too: change the first function only
    source = SOURCE
    assert old in source
    function = module_from(source.replace(old, new, 1)).attend_q_tile
    assert report_for(function, seed=3).misconception == mistake


def test_averaged_tile_answers_are_recognised():
    def attend_q_tile(q_tile, k, v, block_k):
        starts = range(0, len(k), block_k)
        return np.mean([naive(q_tile, k[j : j + block_k], v[j : j + block_k]) for j in starts], 0)

    assert report_for(attend_q_tile, seed=3).misconception == "tile answers are averaged"


def test_the_whole_table_of_scores_is_noticed():
    """Naive attention gives the right numbers; only the measured memory tells."""

    def attend_q_tile(q_tile, k, v, block_k):
        return naive(q_tile, k, v)

    def tiled_attention(q, k, v, block_q, block_k):
        return naive(q, k, v)

    for function in (attend_q_tile, tiled_attention):
        assert report_for(function, seed=2).failed_property == "never holds all scores"


def test_one_maximum_for_the_whole_tile_of_rows_fails():
    """It is right in algebra, and underflows where the rows' scores lie far apart."""

    def attend_q_tile(q_tile, k, v, block_k):
        s = q_tile @ k.T / np.sqrt(q_tile.shape[1])
        p = np.exp(s - s.max())
        return p @ v / p.sum(axis=1, keepdims=True)

    found = report_for(attend_q_tile, seed=2)
    assert found.verdict is Verdict.INCORRECT
    assert "NaN" in found.text()


@pytest.mark.parametrize("name", ["attend_q_tile", "tiled_attention", "flash_program"])
def test_other_parameters_get_a_sentence(name):
    found = report(lambda q: q, name)
    assert found.failed_property == "signature"


# --- 4.3 ----------------------------------------------------------------------------------------


def test_state_carried_to_the_next_q_tile_is_recognised():
    def tiled_attention(q, k, v, block_q, block_k):
        m, l_sum, o = -np.inf, 0.0, 0.0
        out = np.zeros_like(q)
        for i in range(0, len(q), block_q):
            rows = slice(i, i + block_q)
            for j in range(0, len(k), block_k):
                cols = slice(j, j + block_k)
                s = q[rows] @ k[cols].T / np.sqrt(q.shape[1])
                m_new = np.maximum(m, s.max(axis=1, keepdims=True))
                alpha, p = np.exp(m - m_new), np.exp(s - m_new)
                l_sum = alpha * l_sum + p.sum(axis=1, keepdims=True)
                o, m = alpha * o + p @ v[cols], m_new
            out[rows] = o / l_sum
        return out

    found = report_for(tiled_attention, seed=4)
    assert found.misconception == "m, l and O are carried over to the next Q tile"


def test_swapped_loops_without_a_stored_state_are_recognised():
    def tiled_attention(q, k, v, block_q, block_k):
        out = np.zeros_like(q)
        for j in range(0, len(k), block_k):
            for i in range(0, len(q), block_q):
                out[i : i + block_q] = naive(
                    q[i : i + block_q], k[j : j + block_k], v[j : j + block_k]
                )
        return out

    found = report_for(tiled_attention, seed=4)
    assert found.misconception == "each tile's output is written"


def test_a_dropped_last_q_tile_is_recognised():
    def tiled_attention(q, k, v, block_q, block_k):
        out = np.zeros_like(q)
        for i in range(len(q) // block_q):
            out[i * block_q : (i + 1) * block_q] = naive(q[i * block_q : (i + 1) * block_q], k, v)
        return out

    assert report_for(tiled_attention, seed=4).misconception == "the short last Q tile is dropped"


# --- 4.4 ----------------------------------------------------------------------------------------


def test_the_truth_about_tiles_is_that_of_the_masks():
    """The spec looks at pairs, ``masks.causal`` at corners: two independent answers agree."""
    (exercise,) = (e for e in EXERCISES if e.function == "classify_tile")
    mask, compared = masks.causal(), 0
    for case in exercise.cases(np.random.default_rng(1)):
        r0, r1, c0, c1, *rest = case.args
        offset = rest[0] if rest else 0
        n_q = max(r1, c1 - offset) + 1
        if n_q + offset >= c1:
            compared += 1
            answer = mask.classify(r0, r1, c0, c1, n_q, n_q + offset)
            assert exercise.truth(*case.args) == str(answer)
    assert compared > 10


def test_every_class_is_asked_for():
    (exercise,) = (e for e in EXERCISES if e.function == "classify_tile")
    asked = [exercise.truth(*c.args) for c in exercise.cases(np.random.default_rng(1))]
    assert min(asked.count(word) for word in ("skip", "partial", "full")) >= 3


def classify(skip, full):
    def classify_tile(row_start, row_stop, col_start, col_stop, offset=0):
        corners = (row_start, row_stop - 1, col_start, col_stop - 1, offset)
        if skip(*corners):
            return "skip"
        return "full" if full(*corners) else "partial"

    return classify_tile


CLASSIFY_WRONG = {
    "the rule is reversed": classify(
        lambda q0, q1, k0, k1, off: q0 + off > k1, lambda q0, q1, k0, k1, off: q1 + off < k0
    ),
    "diagonal tiles are called full": classify(
        lambda q0, q1, k0, k1, off: q1 + off < k0, lambda q0, q1, k0, k1, off: q1 + off >= k0
    ),
    "stop is counted as part of the tile": classify(
        lambda q0, q1, k0, k1, off: q1 + 1 + off < k0,
        lambda q0, q1, k0, k1, off: q0 + off >= k1 + 1,
    ),
    "the offset is ignored": classify(
        lambda q0, q1, k0, k1, off: q1 < k0, lambda q0, q1, k0, k1, off: q0 >= k1
    ),
    "nothing is ever full": classify(
        lambda q0, q1, k0, k1, off: q1 + off < k0, lambda *corners: False
    ),
}


@pytest.mark.parametrize("mistake", CLASSIFY_WRONG)
def test_wrong_tile_rules_are_recognised(mistake):
    assert report(CLASSIFY_WRONG[mistake], "classify_tile").misconception == mistake


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
    (exercise,) = (e for e in EXERCISES if e.function == "predict_loads")
    assert exercise.truth() == RIGHT


@pytest.mark.parametrize(
    "answer", [None, {}, 4, dict.fromkeys(RIGHT, 1), {**RIGHT, "k_times": "4 x"}]
)
def test_other_predictions_fail(answer):
    assert report(lambda: answer, "predict_loads").verdict is Verdict.INCORRECT


# --- 4.6 ----------------------------------------------------------------------------------------

LOAD_V = "        v_tile = load_tile(memory, v, keys, n_k, v_row, head_dim)\n"
LOAD_Q = "    q_tile = load_tile(memory, q, rows, n_q, q_row, head_dim)\n"
STORE = "    store_tile(memory, o, acc / l_sum[:, None], rows, n_q, o_row, head_dim)\n"
PROGRAM_WRONG = {
    "loads q once": (LOAD_V, LOAD_V + "    " + LOAD_Q),
    "loads v once per Q tile": (LOAD_V, LOAD_V + LOAD_V),
    "stores o once": (
        "        m = m_new\n\n    store_tile",
        "        m = m_new\n    " + STORE + "\n    store_tile",
    ),
    "writes every row of o": (STORE, STORE.replace("    store", "    if tile: store")),
    "leaves its inputs alone": (STORE, STORE + "    memory.store(q, memory.array('q')[0, 0, 0])\n"),
}


@pytest.mark.parametrize("property", PROGRAM_WRONG)
def test_right_numbers_with_wrong_traffic_fail(property):
    assert (
        report_for(mutant("flash_program", PROGRAM_WRONG[property]), seed=3).failed_property
        == property
    )


@pytest.mark.parametrize(
    "change",
    [
        (
            "return memory.load(at, mask=rows[:, None] < n_rows, other=0.0)",
            "return memory.load(at)",
        ),
        ("memory.store(at, tile, mask=rows[:, None] < n_rows)", "memory.store(at, tile)"),
    ],
)
def test_a_missing_mask_is_out_of_bounds(change):
    found = report_for(mutant("flash_program", change), seed=3)
    assert found.failed_property == "stays inside its tensors"
    assert "Program (" in found.text()


PROGRAM_MISTAKES = {
    "keys past the end count as score 0": ("visible = keys[None, :] < n_k", "visible = True"),
    "O is not rescaled": ("        acc *= alpha[:, None]\n", ""),
    "l is not rescaled": ("l_sum = l_sum * alpha + p.sum(1)", "l_sum = l_sum + p.sum(1)"),
    "the maximum starts at 0": ("m = np.full(block_q, -np.inf)", "m = np.zeros(block_q)"),
    "the scale is missing": ("        s *= scale  # (block_q, block_k)\n", ""),
}


@pytest.mark.parametrize("mistake", PROGRAM_MISTAKES)
def test_wrong_programs_are_recognised(mistake):
    found = report_for(mutant("flash_program", PROGRAM_MISTAKES[mistake]), seed=3)
    assert found.misconception == mistake, found.text()


def test_head_dim_in_place_of_the_stride_is_recognised():
    """Where heads lie side by side, rows are n_heads * head_dim apart."""
    source = SOURCE.replace("rows[:, None] * stride_row", "rows[:, None] * head_dim")
    source = source.replace(STORE, STORE.replace("store_tile", "_store"))
    source += """

def _store(memory, base, tile, rows, n_rows, stride_row, head_dim):
    at = base + rows[:, None] * stride_row + np.arange(head_dim)[None, :]
    memory.store(at, tile, mask=rows[:, None] < n_rows)
"""
    found = report_for(module_from(source).flash_program, seed=3)
    assert found.misconception == "head_dim in place of the row stride"


def test_peeking_past_the_books_fails():
    """``memory.array`` is not counted: the books then say that K was never loaded."""
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
    assert found.failed_property == "loads k once per Q tile"


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

BACK = "np.where((back >= 0) & (back < window), s, -np.inf)"
WINDOW_WRONG = {
    "the window is one key too long": (
        "    n_heads, n_q, d = q.shape\n    kv_heads",
        "    window += 1\n    n_heads, n_q, d = q.shape\n    kv_heads",
    ),
    "the window is one key too short": (
        BACK,
        BACK.replace("(back < window)", "(back < max(1, window - 1))"),
    ),
    "the window is missing": ("first = oldest // block_k * block_k", "first, window = 0, n_k"),
    "heads take turns instead of sharing with their neighbours": (
        "kv_head = head // (n_heads // kv_heads)",
        "kv_head = head % kv_heads",
    ),
    "unseen tiles are computed and masked": ("first = oldest // block_k * block_k", "first = 0"),
}


@pytest.mark.parametrize("mistake", WINDOW_WRONG)
def test_wrong_windows_are_recognised(mistake):
    found = report_for(mutant("windowed_gqa_attention", WINDOW_WRONG[mistake]), seed=3)
    assert found.misconception == mistake, found.text()


def test_an_empty_pile_before_the_first_key_is_nan_unless_handled():
    base = "base = np.where(m_new == -np.inf, 0.0, m_new)"
    found = report_for(mutant("windowed_gqa_attention", (base, "base = m_new")), seed=3)
    assert found.verdict is Verdict.INCORRECT
    assert "NaN" in found.text()


def test_the_window_truth_is_that_of_the_masks():
    q, k, v = np.random.default_rng(2).standard_normal((3, 2, 20, 4))
    allowed = masks.sliding_window(6).dense(7, 20)
    expected = attention_float64(q[:, :7], k, v, allowed=allowed)[0]
    np.testing.assert_array_equal(_window_truth(q[:, :7], k, v, 6)[0], expected)
