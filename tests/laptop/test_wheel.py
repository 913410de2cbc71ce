"""The wheel of the interpreter: what is in it, what is refused, that pip takes it away again."""

from __future__ import annotations

import os
import subprocess
from zipfile import ZipFile

import pytest
from conftest import ROOT
from laptop.conftest import INFO

from course_lib.laptop import LOCAL_VERSION, VERSION
from course_lib.laptop.wheel import WheelProblem, interpreter_wheel


def test_the_version_is_the_one_that_is_installed_elsewhere():
    assert f"triton=={VERSION}" in (ROOT / "constraints.txt").read_text().split()


def made_of(official, folder):
    with ZipFile(official) as theirs:
        return ZipFile(interpreter_wheel(theirs, folder))


def test_it_holds_python_files_a_licence_and_no_compiler(official, tmp_path):
    names = made_of(official, tmp_path).namelist()
    info = f"triton-{LOCAL_VERSION}.dist-info"
    assert f"{info}/licenses/LICENSE" in names
    assert {"triton/runtime/interpreter.py", "triton/_C/libtriton.py"} <= set(names)
    of_compilers = ("triton/backends/nvidia", "triton/backends/amd", "triton/profiler")
    assert not [name for name in names if name.startswith(of_compilers)]
    assert [n for n in names if not n.endswith(".py") and not n.startswith(info)] == []


def test_a_file_that_is_not_the_recorded_one_is_refused(forged, tmp_path):
    with pytest.raises(WheelProblem, match=r"language/core\.py is not the file"):
        made_of(forged, tmp_path)


def test_another_version_is_refused(official, tmp_path):
    other = tmp_path / "other.whl"
    with ZipFile(official) as true, ZipFile(other, "w") as false:
        for name in true.namelist():
            false.writestr(name.replace(INFO, "triton-3.9.0.dist-info"), true.read(name))
    with pytest.raises(WheelProblem, match=VERSION):
        made_of(other, tmp_path)


LOOK = """
import importlib.metadata, sys
print(importlib.metadata.version("triton"))
from torch.utils._triton import has_triton, has_triton_package
print(has_triton(), has_triton_package())
try:
    import triton
    import triton.experimental.gluon.language
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend
    make_backend(GPUTarget("cuda", 80, 32))
except (ImportError, RuntimeError) as error:
    print(f"{type(error).__name__}: {error}")
"""
COMPILE = """
import torch
print(torch.compile(lambda x: 2 * x + 1)(torch.ones(3)).tolist())
"""


def printed(python, code, asked, folder):
    """Return the lines that code prints on a laptop that was asked to interpret, or was not."""
    environment = {"TRITON_INTERPRET": asked, "TORCHINDUCTOR_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [python, "-c", code], env=os.environ | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("asked", ["1", "0"])
@pytest.mark.few(1)
def test_nobody_takes_it_for_a_compiler(laptop, tmp_path, asked):
    version, sees, refused = printed(laptop, LOOK, asked, tmp_path)
    assert version == LOCAL_VERSION
    assert sees == ("False True" if asked == "1" else "False False")
    assert refused.startswith("NoCompiler: " if asked == "1" else "ImportError: ")
    assert "no Triton compiler" in refused


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["1", "0"])
def test_torch_compiles_for_a_cpu_as_before(laptop, tmp_path, asked):
    assert printed(laptop, COMPILE, asked, tmp_path) == ["[3.0, 3.0, 3.0]"]
