"""Lesson 06's checks: every mistake the lesson names is recognised by name."""

from __future__ import annotations

import numpy as np
import pytest

import course_lib  # noqa: F401  (before triton: it chooses the mode)

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from helpers import changed, renamed, report_on, solutions, words_of  # noqa: E402

from course_lib.checking import report_for  # noqa: E402
from course_lib.judging.report import Verdict  # noqa: E402
from course_lib.judging.spec import Observed  # noqa: E402
from course_lib.specs import of_lesson  # noqa: E402
from course_lib.specs.lesson_06.on_a_gpu import FINE, ON_A_GPU, RACES, REFUSED  # noqa: E402

SPECS = {exercise.function: exercise for exercise in of_lesson(6)}
KERNELS = [name for name, spec in SPECS.items() if spec.kind == "kernel"]


@pytest.mark.parametrize("name", KERNELS)
def test_none_a_wrong_shape_and_plain_torch_fail(name):
    def no_kernel(x, y=None, **kwargs):
        if name == "copy_tiles":
            return tuple(torch.tensor(c).to(x.dtype) for c in SPECS[name].truth(x, **kwargs))
        if name == "mended_total":
            return x.sum().reshape(1)
        if name == "turned_stairs":
            out, top = SPECS[name].truth(x, **kwargs)
            half = torch.float16 if kwargs["half"] else torch.float32
            return torch.tensor(out).to(half), torch.tensor(top).float()
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
                half = case.kwargs.get("half") and torch.float16
                dtypes = (half or dtype, dtype)
                answer = tuple(
                    torch.tensor(null(part)).to(kind)
                    for part, kind in zip(parts, dtypes, strict=False)
                )
                answer = answer if isinstance(truth, tuple) else answer[0]
            assert spec.judge(case, Observed(answer), truth), case.name


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("6.1/wrong/store_without_mask", "Store to `out`"),
        ("6.1/wrong/load_without_mask", "Load from `x`"),
        ("6.1/wrong/no_column_stride_in_load", "64 x 32 in tiles of 16 x 32"),
        ("6.1/wrong/rows_and_columns_exchanged", "one tile row per entry of rows"),
        ("6.1/wrong/last_row_masked", "the copy are ever stored"),
        ("6.2/wrong/two_dtypes", "same dtype"),
        ("6.4b/wrong/load_add_store", "race for 1 element of `out`"),
        ("6.4b/wrong/out_not_zeroed", "NaN"),
        ("6.5/wrong/no_assertion", "a tile has 16 columns, while the first program ends with 7"),
        ("6.5/wrong/assertion_too_strict", "a tile is wider than the first stairs"),
        ("6.5/wrong/asserted_in_the_launcher", "a tile is wider than the first stairs"),
        ("6.5/wrong/one_tile_too_many", "columns 16 to 23 of `x`, which nobody needs"),
        ("6.5/wrong/end_past_the_columns", "bring nothing, since their mask is False"),
    ],
)
def test_the_report_says_where_and_why(file, words):
    """Beyond the property and the mistake's name, which test_submissions.py asks for."""
    assert words in words_of(report_on(file))


# --- 6.2 ----------------------------------------------------------------------------------------


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
    right = solutions(6).tile_scores  # loaded here: its own launches are no part of the answer

    def tile_scores(q, k):
        wanted = right(q, k)
        try:
            mine = answer(q.float(), k.float())
        except RuntimeError:  # the inner sizes differ
            return wanted
        return mine if mine.shape == wanted.shape else wanted

    assert report_for(tile_scores, seed=3).misconception == mistake


def test_converting_a_float32_k_to_the_dtype_of_q_loses_its_digits(uncompiled):
    found = changed(
        6, "tile_scores", ("q_tile = q_tile.to(k_tile.dtype)", "k_tile = k_tile.to(q_tile.dtype)")
    )
    assert "k keeps its digits" in words_of(found), found.text()


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
@pytest.mark.few(2)
def test_the_answer_of_6_4a_is_what_compiler_and_ledger_say(name):
    from course_lib.accounting.races import RaceLedger
    from course_lib.child.compile_check import compile_for

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


def test_a_second_kernel_has_tiles_of_its_own():
    """Those of the call are for the kernel that is given x."""
    assert "tiles here are" not in words_of(report_on("6.4b/wrong/second_kernel_of_4096"))
    assert "tiles here are" in words_of(changed(6, "mended_total", ("BLOCK=block", "BLOCK=32")))


def test_a_wrong_signature_gets_a_sentence():
    def mended_total(x):
        return x.sum()

    found = report_for(mended_total, seed=1)
    assert "mended_total(x, *, block=64); yours cannot be" in words_of(found)


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("copy_tiles", (", other=0.0", ""), "Next: write other=0.0 into each such load."),
        ("mended_total", ("torch.zeros(1,", "torch.zeros((),"), ".reshape((1,)) gives that shape."),
        ("which_fail_on_a_gpu", ('"races"', '"race"'),
         'Next: "race" is none of the texts of this answer: "does not compile", "fine", "races".'),
        ("matmul", ("b + steps[:, None] * b_row + cols[None, :] * b_col",
                    "b + cols[:, None] * b_col + steps[None, :] * b_row"),
         "tiles of 64 and of 32 elements meet in one expression"),
    ],
)  # fmt: skip
def test_what_is_next_says_what_to_write(name, change, says):
    assert says in words_of(changed(6, name, change))


def test_no_two_sides_of_the_first_product_are_alike():
    first = SPECS["matmul"].cases(np.random.default_rng(1))[0]
    (m, k), (_, n) = (x.shape for x in first.args)
    assert len({m, n, k}) == len(set(first.kwargs.values())) == 3
