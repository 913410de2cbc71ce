"""Kernels compile for a GPU that is not here, or a sentence says why not and where.

A child costs some 3 s, most of it torch's import; so the traps share one, through the child's
task, and only what is about the child itself starts another.
"""

from __future__ import annotations

import inspect
import re

import pytest
import torch
from child import trap_kernels as traps

from course_lib import _mode
from course_lib.child import compile_check
from course_lib.child.compile_check import compile_for
from course_lib.child.compiler_messages import explain
from course_lib.child.extract import extract
from course_lib.child.process import run
from course_lib.child.trusted_codec import encode_call
from course_lib.kernels.flash_forward import flash_attention_with_lse

pytestmark = pytest.mark.skipif(_mode.mode() == "none", reason="needs Triton")

# kernel -> (words of the sentence, the source line it points at, the function of that line)
TRAPS = {
    "scalar_start": ("`m` starts as a plain number and becomes a tile", 'm = float("-inf")'),
    "integer_start": ("`total` starts as int32 and becomes fp32", "total = 0"),
    "growing_dtype": ("`acc` starts as fp16 and becomes fp32", "acc = tl.zeros((16,), tl.float16)"),
    "growing_shape": ("`acc` changes its shape in the loop, from (1) to (16)", "acc = tl.zeros"),
    "breaks": ("`break` does not exist on a GPU", "break"),
    "prints": ("`print` takes a plain text first", "print(value)"),
    "appends": ("a list cannot grow in a kernel", "parts.append"),
    "small_dot": ("is too small (needed", "tl.store(o + j"),
    "tries": ("this piece of Python (Try) does not exist", "try:"),
    "reads_a_global": ("cannot read the global variable `BLOCK`", "at = tl.arange(0, BLOCK)"),
    "assigned_in_loop": ("`value` is not defined at this point", "tl.store(o"),
    "calls_python": ("only triton.language and @triton.jit functions, not `numel`", ""),
    "not_a_power": ("`tl.arange` needs a power of two", "at = tl.arange(0, 48)"),
    "starts_at_a_variable": ("takes constants: write start + tl.arange(0, BLOCK)", "at = tl.ar"),
    "picks_one": ("a single element of a tile cannot be picked", "tl.store(o, value[3])"),
    "branches_on_a_tile": ("`if` needs one value, not a tile", "if value > 0:"),
    "calls_a_helper": ("`m` starts as a plain number", "m = 0.0"),
    "wants_too_much": ("KiB of shared memory, and a block has at most 163 KiB", ""),
}


def compile_all(student, payload):
    """A task: the compile check's own, once per name, in one child."""
    calls = payload["calls"]
    return {
        name: compile_check._task(student, payload | {"call": call})[0]
        for name, call in calls.items()
    }


@pytest.fixture(scope="module")
def reports():
    piece = extract(traps.launch)
    payload = {
        "archs": [80],
        "name": piece.name,
        "origins": piece.origins,
        "calls": {
            name: encode_call([torch.zeros(262144), name], {}, contents=False)
            for name in [*TRAPS, "stub", "sound", "raises", "nothing"]
        },
    }
    task = "child.test_compile_check:compile_all"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(inspect.getfile(traps)).rpartition("/child/")[0])
        result = run(piece, task, payload, mode="compile", timeout=200)
    assert result.ok, result.failure
    return {name: compile_check._from_answer("sm_80", d) for name, d in result.value.items()}


@pytest.mark.parametrize("name", TRAPS)
def test_each_trap_gets_its_sentence_and_its_line(reports, name):
    words, text = TRAPS[name]
    report = reports[name]
    assert (report.ok, report.kind) == (False, "student")
    assert words in report.message
    where = "broken_helper" if name == "calls_a_helper" else name
    assert report.message.startswith(f"`{where}` does not compile for sm_80: ")
    if text:
        assert report.text.startswith(text)
        assert f"(line {report.line}: {report.text})" in report.message
        with open(report.file) as file:
            assert list(file)[report.line - 1].strip() == report.text
    assert "\n" not in report.message
    assert report.compiler_message


def test_a_stub_is_not_attempted(reports):
    assert (reports["stub"].kind, reports["stub"].message) == ("not attempted", "not attempted")


def test_an_autotuned_kernel_compiles_with_its_first_configuration(reports):
    report = reports["sound"]
    assert report.ok, report.message
    (kernel,) = report.kernels
    assert (kernel.name, kernel.num_warps) == ("sound", 4)


def test_a_launcher_that_raises_or_launches_nothing(reports):
    assert "the launcher raised ValueError: before any kernel" in reports["raises"].message
    assert reports["raises"].text == 'raise ValueError("before any kernel")'
    assert "`launch` launched no Triton kernel" in reports["nothing"].message


def test_the_reference_compiles_for_several_gpus_in_one_child():
    q, k = torch.zeros(1, 2, 100, 64).half(), torch.zeros(1, 1, 130, 64).half()
    targets = ["sm_80", "sm_75"]
    reports = compile_for(flash_attention_with_lse, q, k, k, target=targets, causal=True)
    assert [report.target for report in reports] == targets
    for report in reports:
        assert report.ok, report.message
        assert [kernel.name for kernel in report.kernels] == ["flash_forward"]
        assert 0 < report.shared_bytes <= 64 * 1024
    assert reports[0].shared_bytes != reports[1].shared_bytes, "each GPU its own kernel"


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("d", [16, 64, 128])
def test_the_reference_compiles_with_its_defaults(dtype, d):
    q = torch.zeros(1, 1, 100, d, dtype=dtype)
    for report in compile_for(flash_attention_with_lse, q, q, q, target=["sm_80", "sm_90"]):
        assert report.ok, report.message


def uses_what_is_missing(x):
    return missing_name(x)  # noqa: F821


def test_a_missing_name_is_reported_without_a_child():
    report = compile_for(uses_what_is_missing, torch.zeros(1))
    assert (report.ok, report.kind) == (False, "student")
    assert "`missing_name`, and nothing of that name" in report.message
    assert report.seconds < 1


def never_ends(x):
    while True:
        pass


def test_a_launcher_that_never_ends_is_stopped():
    report = compile_for(never_ends, torch.zeros(1), timeout=2)
    assert (report.ok, report.kind) == (False, "timeout")
    assert "2 seconds" in report.message


FAILING_PTXAS = """#!/bin/sh
case "$*" in *--version*) echo "Cuda compilation tools, release 12.8, V12.8.93";; *) exit 3;; esac
"""


def test_a_broken_assembler_is_not_the_students_fault(monkeypatch, tmp_path):
    ptxas = tmp_path / "ptxas"
    ptxas.write_text(FAILING_PTXAS)
    ptxas.chmod(0o755)
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(ptxas))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    report = compile_for(traps.launch, torch.zeros(64), "sound")
    assert (report.ok, report.kind) == (False, "infrastructure")
    assert "ptxas is missing or failed" in report.message
    assert "\n" not in report.message


def test_what_the_assembler_refuses_while_it_takes_another_kernel_is_the_students_fault():
    report = compile_for(traps.launch, torch.zeros(64), "no_instruction")
    assert (report.ok, report.kind) == (False, "student")
    assert "which takes other kernels, refuses it: " in report.message
    assert "no_such" in report.message
    assert "/tmp" not in report.message


def test_an_unknown_gpu_gets_a_sentence():
    with pytest.raises(ValueError, match=r"target must be one of sm_75, .*got 'a100'"):
        compile_for(flash_attention_with_lse, target="a100")


def test_what_is_not_known_is_passed_on():
    assert explain("at 3:4:\n  x\n  ^\nSomethingError('never seen before.')") == "never seen before"
    assert not re.search("[{}]", explain("NameError('tl is not defined')"))
