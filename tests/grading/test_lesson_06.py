"""Lesson 06's checks: solutions pass, and every mistake the lesson names is recognised by name."""

from __future__ import annotations

import numpy as np
import pytest

import course_lib  # noqa: F401  (before triton: it chooses the mode)

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from grading.helpers import code, module_from, solutions, stubs  # noqa: E402

from course_lib.grading.check import report_for  # noqa: E402
from course_lib.grading.report import Verdict  # noqa: E402
from course_lib.grading.spec import Observed  # noqa: E402
from course_lib.grading.specs.lesson_06 import EXERCISES, FINE, ON_A_GPU, RACES, REFUSED  # noqa: E402

SPECS = {exercise.function: exercise for exercise in EXERCISES}
KERNELS = [name for name, spec in SPECS.items() if spec.kind == "kernel"]


def words_of(report):
    """Return the report's text on one line."""
    return " ".join(report.text().split())


def changed(name, *changes, seed=3):
    """Return the report on the solution in which each (old, new) text was replaced."""
    source = code(6)
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    return report_for(getattr(module_from(source), name), seed=seed)


def renamed(function, name):
    function.__name__ = name
    return report_for(function, seed=7)


@pytest.fixture
def uncompiled(monkeypatch):
    """Leave out the compile check, where a test is about something else."""
    from course_lib.accounting import compile_check

    compiles = compile_check.CompileReport(True, "sm_80")
    monkeypatch.setattr(compile_check, "compile_for", lambda *args, **kwargs: compiles)


@pytest.mark.parametrize("name", SPECS)
def test_the_solution_passes(name):
    found = report_for(getattr(solutions(6), name), seed=1)
    assert found.passed, found.text()


@pytest.mark.parametrize("name", SPECS)
def test_the_stub_is_not_attempted(name):
    assert report_for(getattr(stubs(6), name), seed=1).verdict is Verdict.NOT_ATTEMPTED


@pytest.mark.parametrize("name", KERNELS)
def test_none_a_wrong_shape_and_plain_torch_fail(name):
    def no_kernel(x, y=None, **kwargs):
        if name == "copy_tiles":
            return tuple(torch.tensor(c).to(x.dtype) for c in SPECS[name].truth(x, **kwargs))
        if name == "mended_total":
            return x.sum().reshape(1)
        return x.float() @ (y.T if name == "tile_scores" else y).float()

    for answer in (lambda *a, **k: None, lambda x, *a, **k: x[:1], no_kernel):
        assert renamed(answer, name).verdict is Verdict.INCORRECT
    assert "no Triton kernel" in words_of(renamed(no_kernel, name))


@pytest.mark.parametrize("name", KERNELS)
def test_zeros_the_mean_and_the_input_fail_every_single_case(name):
    spec = SPECS[name]
    for case in spec.cases(np.random.default_rng(5)):
        truth = spec.truth(*case.args, **case.kwargs)
        parts = truth if isinstance(truth, tuple) else (truth,)
        dtype = case.args[0].dtype if name == "copy_tiles" else torch.float32
        for null in (np.zeros_like, lambda part: np.full_like(part, part.mean()), None):
            if null is None:
                answer = case.args[0]
            elif null is not np.zeros_like and parts[0].size == 1:
                continue  # of one entry the mean is the truth
            else:
                answer = tuple(torch.tensor(null(part)).to(dtype) for part in parts)
                answer = answer if isinstance(truth, tuple) else answer[0]
            assert spec.judge(case, Observed(answer), truth), case.name


# --- 6.1 ----------------------------------------------------------------------------------------

COLS = "cols[None, :] * stride_col"
STORE = "ptrs, tile, mask=inside"


def without_column_stride(*, load, store):
    """Return the report on helpers in which one or both forget stride_col."""
    head, tail = code(6).split("def store_tile", 1)
    head = head.replace(COLS, "cols[None, :]") if load else head
    tail = tail.replace(COLS, "cols[None, :]") if store else tail
    module = module_from(f"{head}def store_tile{tail}")
    return report_for(module.copy_tiles, seed=3)


@pytest.mark.parametrize(("load", "store"), [(True, True), (False, True), (True, False)])
def test_a_missing_column_stride_is_recognised_in_either_helper(load, store):
    found = without_column_stride(load=load, store=store)
    assert found.misconception == "the column stride is missing"


def test_only_the_transposed_view_shows_a_load_without_column_stride():
    assert "a transposed view" in words_of(without_column_stride(load=True, store=False))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (STORE, "ptrs, tile", "Store to `out`"),
        (STORE, "ptrs, tile, mask=rows[:, None] < n_rows", "Store to `out`"),
        ("ptrs, mask=inside, other=0.0", "ptrs", "Load from `x`"),
        ("ptrs, mask=inside, other=0.0", "ptrs, mask=rows[:, None] < n_rows", "Load from `x`"),
        ("mask=inside, other=0.0", "mask=inside, other=1.0", "filled up to whole tiles is wrong"),
        (STORE, "ptrs, tile, mask=inside & (rows[:, None] < n_rows - 1)", "NaN in 1 of"),
    ],
)
def test_masks_of_the_tile_helpers(old, new, words):
    found = changed("copy_tiles", (old, new))
    assert found.verdict is Verdict.INCORRECT
    assert words in words_of(found)


def test_exchanged_strides_leave_the_matrix():
    found = changed(
        "copy_tiles",
        ("rows[:, None] * stride_row + cols[None, :] * stride_col",
         "rows[:, None] * stride_col + cols[None, :] * stride_row"),
    )  # fmt: skip
    assert found.failed_property == "stays inside its tensors"


def test_a_tile_with_rows_and_columns_exchanged_is_named():
    helpers, launcher = code(6).split("# given: nothing to write below this line", 1)
    for old, new in (("[:, None]", "[:, 0]"), ("[None, :]", "[:, None]"), ("[:, 0]", "[None, :]")):
        helpers = helpers.replace(old, new)
    found = report_for(module_from(helpers + launcher).copy_tiles, seed=3)
    assert found.verdict is Verdict.ERROR
    assert "one tile row per entry of rows" in words_of(found)


# --- 6.2 ----------------------------------------------------------------------------------------

DOT = 'tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee")'


@pytest.mark.parametrize(
    ("mistake", "new"),
    [
        ("the scores are divided by sqrt(d)", f"{DOT} / (D ** 0.5)"),
        ("the scores are rounded to float16", f"{DOT}.to(tl.float16)"),
    ],
)
def test_score_mistakes_are_recognised(mistake, new):
    found = changed("tile_scores", (DOT, new))
    assert found.misconception == mistake, found.text()


@pytest.mark.parametrize(
    ("mistake", "answer"),
    [
        ("k is not transposed", lambda q, k: q @ k),
        ("the wrong tile is transposed", lambda q, k: q.T @ k),
        ("the scores are transposed", lambda q, k: k @ q.T),
    ],
)
def test_a_transpose_mistake_that_only_equal_sizes_let_through_is_recognised(mistake, answer):
    """Where all sizes are equal no shape complains: the numbers must."""

    def tile_scores(q, k):
        square = q.shape == k.shape == (32, 32)
        return answer(q, k) if square else solutions(6).tile_scores(q, k)

    assert report_for(tile_scores, seed=3).misconception == mistake


def test_a_missing_transpose_is_an_error_where_the_sizes_differ():
    found = changed("tile_scores", ("tl.trans(k_tile)", "k_tile"))
    assert found.verdict is Verdict.ERROR


def test_tiles_of_two_dtypes_are_an_error():
    found = changed("tile_scores", ("q_tile = q_tile.to(k_tile.dtype)", "q_tile = q_tile"))
    assert found.verdict is Verdict.ERROR
    assert "same dtype" in words_of(found)


def test_converting_k_to_the_dtype_of_q_is_right_too(uncompiled):
    found = changed(
        "tile_scores", ("q_tile = q_tile.to(k_tile.dtype)", "k_tile = k_tile.to(q_tile.dtype)")
    )
    assert found.passed, found.text()


# --- 6.3 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mistake", "old", "new"),
    [
        ("only the last step counts", "acc += tl.dot", "acc = tl.dot"),
        ("every step reads the first tiles", "steps = start + tl", "steps = tl"),
        ("only the first step counts", "range(0, k, BLOCK_K)", "range(0, 1, BLOCK_K)"),
        ("the short last step is left out", "0, k, BLOCK_K", "0, k // BLOCK_K * BLOCK_K, BLOCK_K"),
    ],
)  # fmt: skip
def test_matmul_mistakes_are_recognised(mistake, old, new):
    found = changed("matmul", (old, new))
    assert found.misconception == mistake, found.text()


@pytest.mark.parametrize("mask", ["(steps[None, :] < k)", "(steps[:, None] < k)"])
def test_a_mask_that_forgets_the_end_of_k_is_caught(mask):
    found = changed("matmul", (f"({mask[1:]}", "(0 < 1)"))
    assert found.failed_property in ("stays inside its tensors", "the values")


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ("acc = 0.0", "acc"),
        ("acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float16)", "acc"),
    ],
)
def test_an_untyped_or_half_accumulator_is_right_here_and_not_on_a_gpu(start, words):
    found = changed("matmul", ("acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)", start))
    assert found.verdict is Verdict.NOT_ON_A_GPU, found.text()
    assert words in words_of(found)


# --- 6.4 ----------------------------------------------------------------------------------------


def arguments(name):
    return torch.randn(16, 8) if name == "small_dot" else torch.rand(200) + 0.5


@pytest.mark.parametrize("name", ON_A_GPU)
def test_each_of_the_five_kernels_is_green_here(name):
    x = arguments(name)
    wanted = {
        "biggest": lambda: x.max(),
        "first_part": lambda: x.sum(),
        "small_dot": lambda: x @ x.T,
        "total": lambda: x.sum(),
        "centred": lambda: x - x.mean(),
    }[name]()
    assert torch.allclose(getattr(solutions(6), name)(x), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ON_A_GPU)
def test_the_answer_of_6_4a_is_what_compiler_and_ledger_say(name):
    from course_lib.accounting.compile_check import compile_for
    from course_lib.accounting.races import RaceLedger

    launcher, x = getattr(solutions(6), name), arguments(name)
    compiled = compile_for(launcher, x)
    assert compiled.kind in ("ok", "student"), compiled.message
    with RaceLedger() as ledger:
        launcher(x)
    verdict = REFUSED if not compiled.ok else RACES if ledger.races else FINE
    assert verdict == ON_A_GPU[name], compiled.message


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (dict.fromkeys(ON_A_GPU, FINE), "green on the CPU works on a GPU"),
        (ON_A_GPU | {"total": FINE}, "programs run in order"),
        (ON_A_GPU | {"centred": RACES}, "reading together is a race"),
        (ON_A_GPU | {"centred": REFUSED}, "a scalar start never compiles"),
        (ON_A_GPU | {"small_dot": FINE}, "tl.dot takes any size"),
        ({"total": RACES}, ""),
        (None, ""),
        ([FINE] * 5, ""),
    ],
)
def test_wrong_answers_to_6_4a_are_recognised(answer, mistake):
    found = renamed(lambda: answer, "which_fail_on_a_gpu")
    assert found.verdict is Verdict.INCORRECT
    assert found.misconception == mistake


ATOMIC = "tl.atomic_add(out, part)"


@pytest.mark.parametrize(
    "store",
    ["tl.store(out, tl.load(out) + part)", "tl.store(out, part)"],
    ids=["load, add, store", "only the last"],
)
def test_the_race_is_found_although_the_programs_ran_in_order(store):
    found = changed("mended_total", (ATOMIC, store))
    assert found.failed_property == "does not race"
    assert "race for 1 element of `out`" in words_of(found)


def test_a_place_of_its_own_for_every_program_is_right_too(uncompiled):
    found = changed(
        "mended_total",
        (ATOMIC, "tl.store(out + tl.program_id(0), part)"),
        ("    out = torch.zeros(1, dtype=torch.float32, device=x.device)\n    mended",
         "    out = torch.empty(triton.cdiv(n, block), device=x.device)\n    mended"),
        ("(x, out, n, BLOCK=block)\n    return out\n",
         "(x, out, n, BLOCK=block)\n    return out.sum().reshape(1)\n"),
    )  # fmt: skip
    assert found.passed, found.text()


def test_one_program_that_does_everything_is_not_mended():
    found = changed(
        "mended_total",
        ("mended_kernel[(triton.cdiv(n, block),)](x, out, n, BLOCK=block)",
         "mended_kernel[(1,)](x, out, n, BLOCK=triton.next_power_of_2(n))"),
    )  # fmt: skip
    assert found.failed_property == "one program per block"


def test_memory_that_is_not_zero_at_the_start_is_found():
    found = changed("mended_total", (
        "out = torch.zeros(1, dtype=torch.float32, device=x.device)\n    mended",
        "out = torch.empty(1, dtype=torch.float32, device=x.device)\n    mended"))  # fmt: skip
    assert "NaN" in words_of(found)


def test_a_wrong_signature_gets_a_sentence():
    def mended_total(x):
        return x.sum()

    assert "mended_total(x, block=16)" in words_of(report_for(mended_total, seed=1))
