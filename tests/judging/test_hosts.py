"""On a GPU a check is the laptop's check in a child, and then the GPU's own numbers."""

from __future__ import annotations

import pytest

import course_lib  # noqa: F401  (before triton: it chooses the mode)

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from corpus import corpus, sample  # noqa: E402
from helpers import function_of, module_from, report_on, says, stubs  # noqa: E402

from course_lib import checking as check  # noqa: E402
from course_lib.checking import report_for  # noqa: E402
from course_lib.judging.hosts.interpreted import judge_interpreted  # noqa: E402
from course_lib.judging.report import Verdict  # noqa: E402
from course_lib.specs import find  # noqa: E402

TASK = "course_lib.checking:_in_the_child"
ALIKE = [
    "5.2/right/descriptors",
    "5.2/wrong/adds_in_torch",  # no kernel at all
    "5.3/wrong/store_without_mask",  # leaves its tensors
    "5.3/wrong/useless_kernel_beside_torch",
    "6.1/wrong/one_dimension",  # an error, with its line
    "6.4b/wrong/load_add_store",  # races
    "6.5/wrong/end_of_the_first_row",  # its loads
    "7.2/wrong/program_ids_exchanged",
    "7.4/wrong/causal_no_skip",  # bars
    "7.4/wrong/rows_without_keys_unwritten",  # an error map
    "8.2b/wrong/mask_everywhere",
]
REPEATED = {ALIKE[3], ALIKE[7], ALIKE[10]}  # another of its kind is judged in `make test`


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in REPEATED else []) for name in ALIKE],
)
@pytest.mark.few(4)
def test_the_child_says_what_a_laptop_says(name, monkeypatch):
    monkeypatch.setattr(check, "_compiled", lambda report, *_: report)
    function = function_of(sample(name))
    wanted = report_for(function, seed=1)
    got = judge_interpreted(wanted.exercise, function, 1, TASK)
    assert got.text(width=100) == wanted.text(width=100)
    assert (got.verdict, got.misconception) == (wanted.verdict, wanted.misconception)
    assert got.failed_property == wanted.failed_property
    if wanted.picture is not None:
        assert got.picture.record() == wanted.picture.record()


@pytest.mark.parametrize("exercise", ["5.2", "7.2", "9.2"])
def test_a_stub_is_not_attempted_though_names_are_missing_in_it(exercise):
    found = find(exercise)
    stub = getattr(stubs(found.lesson), found.function)
    assert judge_interpreted(found, stub, 1, TASK).verdict is Verdict.NOT_ATTEMPTED


def test_a_name_that_is_nowhere_defined_is_an_error_with_its_line():
    answer = module_from("def vector_add(x, y, *, block=16):\n    return x + yy\n").vector_add
    found = judge_interpreted(find("5.2"), answer, 1, TASK)
    assert found.failed_property == "NameError"
    assert "line 2, in vector_add:  return x + yy" in found.text()


def test_what_the_answer_prints_is_printed(capsys):
    function = module_from(
        'def vector_add(x, y, *, block=16):\n    print("seen", block)'
    ).vector_add
    judge_interpreted(find("5.2"), function, 1, TASK)
    assert "seen 16" in capsys.readouterr().out


def test_a_device_by_name_is_answered_with_what_to_write():
    named = (
        "import torch\n\n\ndef vector_add(x, y, *, block=16):\n"
        "    return torch.empty(len(x), device='cuda')\n"
    )
    found = judge_interpreted(find("5.2"), module_from(named).vector_add, 1, TASK)
    assert found.verdict is Verdict.ERROR
    assert "line 5, in vector_add" in found.text()
    assert "device=x.device" in found.text()


def test_a_helper_that_cannot_be_loaded_and_a_child_that_dies_do_not_pass():
    lost = "import os\n\n\ndef vector_add(x, y, *, block=16):\n    os._exit(3)\n"
    found = judge_interpreted(find("5.2"), module_from(lost).vector_add, 1, TASK)
    assert found.verdict is Verdict.ERROR
    assert "exit status 3" in found.text()
    broken = (
        "class Loud:\n    made = 1 // (not __name__.startswith('student_c'))\n\n\n"
        "def vector_add(x, y, *, block=16):\n    return Loud.made\n"
    )
    found = judge_interpreted(find("5.2"), module_from(broken).vector_add, 1, TASK)
    assert found.verdict is Verdict.ERROR
    assert "ZeroDivisionError" in found.text()


ON_A_GPU = [
    *(name for name in ALIKE if "/wrong/" in name),
    "5.3/wrong/softmax_in_torch",
    "5.4/wrong/whole_number_as_start",  # does not compile
    "6.3/wrong/acc_float16",
    "7.2/wrong/calls_the_library",
    "7.4/wrong/calls_the_library",
    "7.4/wrong/never_stores_o",
]


@pytest.mark.gpu
@pytest.mark.parametrize("name", ON_A_GPU)
def test_a_wrong_submission_gets_the_name_that_a_laptop_gives(name):
    what, expected = sample(name).expected
    report = report_on(name)
    assert says(report, what) == expected, report.text()


RIGHT = [one.id for id in ("5.2", "5.3", "6.2", "7.2", "7.4") for one in corpus("right", id)]


@pytest.mark.gpu
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_submission_passes_compiled(name):
    report = report_on(name)
    assert report.passed, report.text()


@pytest.mark.gpu
def test_right_in_the_interpreter_and_wrong_compiled_is_not_right():
    """Whatever the reason: here a launcher that forgets half of the numbers of a GPU's tensors."""
    text = sample("5.2/right/plain").text
    hasty = text.replace("    n = x.numel()\n", "    n = x.numel() // (1 + x.is_cuda)\n")
    assert hasty != text
    found = report_for(module_from(hasty).vector_add, seed=1)
    assert found.verdict is Verdict.NOT_ON_A_GPU, found.text()
    assert "on this GPU" in found.text()


@pytest.mark.gpu
def test_the_stub_is_not_attempted_on_a_gpu_either():
    assert report_for(stubs(7).looped_attention).verdict is Verdict.NOT_ATTEMPTED
