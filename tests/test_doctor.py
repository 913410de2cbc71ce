"""course doctor on machines that we do not have, and on this one."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from course_lib import __version__, _mode, doctor
from course_lib.doctor import Facts, Gpu, Package, can_start, diagnose
from course_lib.lessons import all_lessons, in_words

GOOD = {
    "numpy": "2.4.6",
    "matplotlib": "3.11.2",
    "torch": "2.13.0",
    "triton": "3.7.1",
    "ipywidgets": "8.1.9",
    "jupyterlab": "4.6.6",
}
LINUX = Facts((3, 11, 7), "Linux", {k: Package(v) for k, v in GOOD.items()}, memory=16 * 2**30)
WITH_TRITON = in_words(x for x in all_lessons() if "triton" in x.needs)
WITHOUT_TRITON = in_words(x for x in all_lessons() if "triton" not in x.needs)
H100, T4 = Gpu("NVIDIA H100 80GB HBM3", (9, 0)), Gpu("Tesla T4", (7, 5))


def machine(base: Facts = LINUX, *, without: tuple[str, ...] = (), **changes: object) -> Facts:
    """Return ``base`` with some packages gone, at other versions, or other facts."""
    versions = {k: v for k, v in changes.items() if k in GOOD}
    packages = {k: p for k, p in base.packages.items() if k not in without}
    packages |= {k: v if isinstance(v, Package) else Package(v) for k, v in versions.items()}
    facts = {k: v for k, v in changes.items() if k not in GOOD}
    return replace(base, packages=packages, **facts)


def said(facts: Facts) -> str:
    return "\n".join(map(str, diagnose(facts)))


def test_laptop_without_a_gpu_runs_everything_interpreted():
    assert can_start(LINUX)
    assert "All lessons run here" in said(LINUX)
    assert "interpreted: kernels run in Python, on the CPU" in said(LINUX)
    assert "bf16" in said(LINUX)
    assert "problem" not in {line.mark for line in diagnose(LINUX)}


def test_gpu_machine_compiles_and_has_no_bf16_warning():
    text = said(machine(gpus=(H100,)))
    assert "compiling for NVIDIA H100" in text
    assert "sm_90" in text
    assert "bf16" not in text


def test_interpreter_forced_on_a_gpu_machine_is_pointed_out():
    text = said(machine(gpus=(H100,), interpret="1"))
    assert "TRITON_INTERPRET=1" in text
    assert "unset TRITON_INTERPRET" in text
    assert "interpreted: kernels run in Python" in text
    assert "unset TRITON_INTERPRET" not in said(machine(gpus=(H100,), interpret="0"))


@pytest.mark.parametrize(("system", "name"), [("Darwin", "macOS"), ("Windows", "Windows")])
def test_where_there_is_no_triton_the_lessons_without_it_run(system, name):
    facts = machine(without=("triton",), system=system)
    text = said(facts)
    assert can_start(facts)
    assert f"there is none for {name}" in text
    assert f"Lessons {WITHOUT_TRITON} run here" in text
    for way_out in (f"For lessons {WITH_TRITON}: `course triton`", "Colab", "WSL", "container"):
        assert way_out in text
    assert "pip install 'triton" not in text


@pytest.mark.parametrize("gpus", [(), (H100,)])
def test_an_interpreter_without_a_compiler_is_called_so_in_one_line(gpus):
    facts = machine(triton="3.7.1+interpreter", system="Windows", gpus=gpus, interpret="1")
    (line,) = [line for line in diagnose(facts) if "3.7.1" in line.says]
    assert line.mark == "ok"
    assert line.says.startswith("Triton 3.7.1+interpreter, interpreter only: kernels run in Python")
    assert "compiled when graded, on Linux or on Colab" in line.says
    assert "All lessons run here" in said(facts)
    assert "unset TRITON_INTERPRET" not in said(facts)
    assert "bf16" in said(facts)


def test_colab_with_a_t4():
    facts = machine(
        without=("jupyterlab",),
        python=(3, 12, 11),
        torch="2.11.0",
        triton="3.6.0",
        numpy="2.1.3",
        ipywidgets="7.7.1",
        gpus=(T4,),
        colab=True,
    )
    text = said(facts)
    assert can_start(facts)
    assert "on Colab" in text
    assert "./course lab" not in text
    assert "no tensor-core" in text
    assert "All lessons run here" in text


def test_old_triton_with_new_numpy_fails_only_in_the_interpreter():
    broken = machine(triton="3.6.0", numpy="2.4.6")
    assert "only 0-dimensional arrays" in said(broken)
    assert "numpy<2.4" in said(broken)
    assert can_start(broken)
    assert f"{WITH_TRITON} need" in said(broken)
    for fine in (
        machine(triton="3.6.0", numpy="2.3.5"),
        machine(triton="3.7.1", numpy="2.4.6"),
        machine(triton="3.6.0", numpy="2.4.6", gpus=(H100,)),
    ):
        assert "0-dimensional" not in said(fine)
        assert "All lessons run here" in said(fine)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"triton": "3.3.1"}, "older than 3.4"),
        ({"torch": "2.7.1"}, "older than 2.8"),
        ({"triton": Package("3.7.1", "ImportError: libcuda")}, "ImportError: libcuda"),
        ({"without": ("ipywidgets",)}, "ipywidgets is not installed: the sliders stay still"),
        ({"without": ("jupyterlab",)}, "jupyterlab is not installed"),
        ({"without": ("triton",)}, "Triton: not installed"),
        ({"memory": 2 * 2**30}, "2.0 GiB is little"),
    ],
)
def test_what_does_not_stop_the_first_lessons_is_a_note_with_a_remedy(changes, says):
    facts = machine(**changes)
    notes = [line for line in diagnose(facts) if says in line.says]
    assert [line.mark for line in notes] == ["note"]
    assert notes[0].fix
    assert can_start(facts)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"python": (3, 10, 13)}, "Python 3.10.13 is too old"),
        ({"numpy": "1.26.4"}, "needs NumPy 2"),
        ({"without": ("numpy",)}, "numpy is not installed"),
        ({"without": ("torch",)}, "torch is not installed"),
        ({"torch": Package("2.13.0", "OSError: libtorch_cpu.so")}, "OSError: libtorch_cpu.so"),
    ],
)
def test_what_stops_the_first_lessons_is_a_problem_with_a_remedy(changes, says):
    facts = machine(**changes)
    problems = [line for line in diagnose(facts) if line.mark == "problem"]
    assert says in problems[0].says
    assert problems[0].fix
    assert "do not run yet" in problems[-1].says
    assert not can_start(facts)


def test_nothing_installed_at_all_still_gets_an_answer():
    assert not can_start(machine(without=tuple(GOOD)))
    assert "do not run yet" in said(machine(without=tuple(GOOD)))


def test_a_package_that_crashes_is_reported_not_caught_up_in(tmp_path, monkeypatch):
    """A broken torch may abort the interpreter that imports it: it must be a child's."""
    (tmp_path / "torch.py").write_text("import os; os.abort()")
    (tmp_path / "triton.py").write_text("raise ImportError('no libtriton')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(doctor, "PACKAGES", ("torch", "triton"))
    packages = doctor.examine().packages
    assert "ended with" in packages["torch"].error
    assert packages["triton"].error == "ImportError: no libtriton"


def test_this_machine():
    done = subprocess.run(
        [sys.executable, "-m", "course_lib.cli", "doctor"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    assert done.stderr == ""
    assert "do not run yet" not in done.stdout


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("interpreter", "Triton kernels run in the interpreter, on the CPU."),
        ("gpu", "Triton kernels run on the GPU: Tesla T4."),
        ("none", "Triton is not available here."),
    ],
)
def test_headline_is_one_line_in_words(monkeypatch, mode, words):
    monkeypatch.setattr(_mode, "mode", lambda: mode)
    monkeypatch.setattr(doctor, "gpus", lambda: (T4,))
    assert doctor.headline() == f"FlashAttention course {__version__}. {words}"


def test_the_headline_of_an_interpreter_alone_says_so(monkeypatch):
    monkeypatch.setattr(_mode, "mode", lambda: "interpreter")
    monkeypatch.setattr(doctor, "interpreter_only", lambda: True)
    assert "Triton, interpreter only: kernels run in Python" in doctor.headline()


@pytest.mark.gpu
def test_real_gpu_is_named_as_torch_names_it():
    import torch

    (first, *_) = doctor.gpus()
    assert first.name == torch.cuda.get_device_name(0)
    assert first.capability == torch.cuda.get_device_capability(0)
