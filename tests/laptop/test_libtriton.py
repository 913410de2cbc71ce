"""The stand-in's names are those of Triton's own core: enumerations, types, the environment."""

from __future__ import annotations

from enum import Enum
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder
from pathlib import Path

import pytest

pytest.importorskip("triton")

import torch
from triton._C import libtriton as core
from triton.backends.compiler import BaseBackend
from triton.language import dtype as triton_dtype
from triton.runtime.jit import TensorWrapper

from course_lib.laptop.core import libtriton as standin

ENUMERATIONS = [
    (place, name)
    for place in ("ir", "interpreter")
    for name, member in vars(getattr(standin, place)).items()
    if isinstance(member, type) and issubclass(member, Enum)
]
NUMBERS = (True, False, 0, 1, -7, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63, -(2**63), 1.5)
TORCH = (
    *("float16", "bfloat16", "float32", "float64", "bool", "float8_e4m3fn", "float8_e5m2"),
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)


@pytest.mark.parametrize(("place", "name"), ENUMERATIONS)
def test_an_enumeration_has_the_cores_members_and_values(place, name):
    theirs = getattr(getattr(core, place), name).__members__
    ours = getattr(getattr(standin, place), name).__members__
    assert {word: member.value for word, member in ours.items()} == {
        word: int(member) for word, member in theirs.items()
    }


def test_every_enumeration_that_the_interpreter_asks_for_is_there():
    assert {"MEM_SEMANTIC", "ROUNDING_MODE", "ATOMIC_OP"} <= {name for _, name in ENUMERATIONS}
    assert len(ENUMERATIONS) == 13


@pytest.mark.parametrize("const", [False, True])
def test_types_of_arguments_are_named_as_the_core_names_them(const):
    tensors = [torch.zeros(1, dtype=getattr(torch, name)) for name in TORCH]
    wrapped = TensorWrapper(torch.zeros(1, dtype=torch.int8), triton_dtype("fp8e5"))
    for argument in (None, *NUMBERS, *tensors, wrapped):
        how = (BaseBackend, argument, const, False, True)
        assert standin.native_specialize_impl(*how) == core.native_specialize_impl(*how)


def test_what_is_no_argument_is_refused_as_the_core_refuses_it():
    for module in (core, standin):
        with pytest.raises(TypeError, match="failed to specialize argument of type: str"):
            module.native_specialize_impl(BaseBackend, "x", False, False, True)


@pytest.mark.parametrize("said", ["1", "0", "true", "TRUE", "On", "y", "yes", "off", "", "2", None])
def test_the_environment_is_read_as_the_core_reads_it(monkeypatch, said):
    monkeypatch.delenv("COURSE_TRIES", raising=False)
    if said is not None:
        monkeypatch.setenv("COURSE_TRIES", said)
    assert standin.getenv("COURSE_TRIES") == core.getenv("COURSE_TRIES")
    assert standin.getenv("COURSE_TRIES", "x") == core.getenv("COURSE_TRIES", "x")
    for default in (False, True):
        ours = standin.getenv_bool("COURSE_TRIES", default)
        assert ours == core.getenv_bool("COURSE_TRIES", default)


def test_what_needs_a_compiler_says_that_there_is_none():
    with pytest.raises(RuntimeError, match="no Triton compiler"):
        standin.linear_layout.LinearLayout()
    with pytest.raises(RuntimeError, match="no Triton compiler"):
        standin.native_specialize_impl(BaseBackend, 1, False, True, True)
    with pytest.raises(AttributeError, match="no Triton compiler"):
        standin.ir.parse_mlir_module("file")
    assert not hasattr(standin, "llvm")


def test_a_compiled_core_beside_it_goes_first(tmp_path):
    (tmp_path / "libtriton.py").write_text(Path(standin.__file__).read_text("utf-8"))
    assert PathFinder.find_spec("libtriton", [str(tmp_path)]).origin.endswith(".py")
    (tmp_path / f"libtriton{EXTENSION_SUFFIXES[-1]}").touch()
    assert not PathFinder.find_spec("libtriton", [str(tmp_path)]).origin.endswith(".py")
