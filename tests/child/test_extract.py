"""What `extract` writes runs on its own, and what it cannot carry it names."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest
import torch
from child import extract_kernels as own
from IPython.core.interactiveshell import InteractiveShell

from course_lib import _mode
from course_lib.child.extract import NotExtractable, extract, python_function, to_source
from course_lib.kernels.flash_forward import flash_attention_with_lse, flash_forward


def run_alone(source: str, tmp_path, then: str) -> str:
    """Import the source from a file in a process that knows nothing else."""
    (tmp_path / "alone.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "-c", f"import course_lib\nfrom alone import *\n{then}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_launcher_with_everything_it_names_runs_alone(tmp_path):
    """Autotuned and decorated kernels, helpers of helpers, constants, classes, recursion."""
    source = to_source(own.launcher)
    printed = run_alone(source, tmp_path, "import torch; print(launcher(torch.ones(5)).tolist())")
    assert printed.strip() == "[4.0, 4.0, 4.0, 4.0, 4.0]"
    assert "accounting" not in source


def test_the_file_is_in_order_and_always_the_same():
    source = to_source(own.launcher)
    assert source == to_source(own.launcher)
    places = [
        source.index(part)
        for part in (
            "import math\n",
            "import torch as pytorch\n",
            "BLOCK = ",
            "def twice",
            "def four_times",
            "multiply = four_times",
            "def kernel",
            "def launcher",
        )
    ]
    assert places == sorted(places)
    for constant in (
        "BLOCK = tl.constexpr(16)",
        'SCALES = (0.5, float("inf"), -2)',
        "ACCUMULATE = tl.float32",
        "HALF = pytorch.float16",
        "CONFIGS = [triton.Config({'TILE': 16}, num_warps=2",
    ):
        assert constant in source
    body = ast.parse(source).body
    kinds = [isinstance(node, ast.Import | ast.ImportFrom) for node in body]
    assert kinds == sorted(kinds, reverse=True), "imports come first"


def test_the_library_is_imported_or_copied_on_request():
    assert to_source(flash_attention_with_lse) == (
        "from course_lib.kernels.flash_forward import flash_attention_with_lse\n"
    )
    assert "from course_lib.kernels.flash_forward import load_tile as library_load" in to_source(
        own.uses_the_library
    )
    alone = to_source(flash_attention_with_lse, inline_library=True)
    assert "course_lib" not in alone
    assert {n.name for n in ast.parse(alone).body if isinstance(n, ast.FunctionDef)} == {
        "load_tile", "store_tile", "flash_forward", "_check", "check_tensors", "interpreted",
        "flash_attention_with_lse",
    }  # fmt: skip


def test_a_closure_brings_its_values():
    source = to_source(own.make_scaler(2.5))
    assert "factor = 2.5" in source
    namespace: dict = {}
    exec(source, namespace)
    assert namespace["scaler"](4) == 10


def test_what_has_no_literal_is_made_again_by_its_statement():
    """A lambda, a logger, a named tuple, an object, a partial and a cached helper."""
    namespace: dict = {}
    exec(to_source(own.uses_made_globals), namespace)
    assert namespace["uses_made_globals"](100) == own.uses_made_globals(100) == 7 + 8 + 1.443


def test_a_name_that_is_bound_twice_keeps_what_it_meant_in_between(shell):
    """The first ``run`` was lost, and the copy's `_counted` was made of a name yet to come."""
    space = run_cells(
        shell,
        "class Counted:\n    def __init__(self, f):\n        self.f, self.n = f, 0\n"
        "    def __call__(self, x):\n        self.n += 1\n        return self.f(x)",
        "def run(x):\n    return 2 * x\n_counted = Counted(run)\n"
        "def run(x):\n    return _counted(x) + 1",
    )
    alone: dict = {}
    exec(to_source(space["run"]), alone)
    assert alone["run"](5) == 11


@pytest.mark.parametrize("wrap", [["run = Plus(run)"], ["run = Plus(run)", "run = Plus(run)"]])
def test_a_name_that_is_made_of_itself_keeps_every_layer(shell, wrap):
    """The same line twice, as where a cell is run again; the copy began with what was not there."""
    plus = (
        "class Plus:\n    def __init__(self, f):\n        self.f = f\n"
        "    def __call__(self, x):\n        return self.f(x) + 1"
    )
    space = run_cells(
        shell, plus, "def run(x):\n    return 2 * x", *wrap, "def ask(x):\n    return run(x)"
    )
    alone: dict = {}
    exec(to_source(space["ask"]), alone)
    assert alone["ask"](5) == space["ask"](5) == 10 + len(wrap)


def test_a_function_called_top_has_locals(shell):
    """The symbol table of Python 3.11 takes its arguments for globals."""
    space = run_cells(shell, "def top(x):\n    return x + 1")
    assert to_source(space["top"]).strip() == "def top(x):\n    return x + 1"


def test_origins_say_where_a_definition_was_written():
    origins = extract(own.launcher).origins
    file, line = origins["kernel"]
    with open(file) as lines:
        assert list(lines)[line - 1].startswith("def kernel(")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (own.uses_a_tensor, r"`uses_a_tensor` uses the global `WEIGHTS`, a Tensor of shape \(3,\)"),
        (own.uses_nothing_defined, "`undefined_name`, and nothing of that name is defined"),
        (lambda x: x, "lambda"),
        (3, "a function is needed here, got a int"),
        (len, "a function is needed"),
        (own.make_scaler(object()), "`factor`, a object"),
        (own.make_scaler(own), "a module of your own"),
        (own.make_scaler({1: object()}), "What one call keeps in it for the next is no part"),
    ],
)
def test_what_cannot_be_carried_is_named(function, words):
    with pytest.raises(NotExtractable, match=words):
        to_source(function)


def test_a_function_without_source_gets_a_sentence():
    namespace: dict = {}
    exec("def made_by_exec(x):\n    return x\n", namespace)
    with pytest.raises(NotExtractable, match="`made_by_exec` cannot be found"):
        to_source(namespace["made_by_exec"])


def test_a_file_that_changed_under_our_feet_gets_a_sentence(tmp_path, monkeypatch):
    (tmp_path / "edited.py").write_text("def first(x):\n    return x\n")
    monkeypatch.syspath_prepend(tmp_path)
    import edited

    (tmp_path / "edited.py").write_text("NEW = 1\nLINES = 2\n\n\ndef other(x):\n    return x\n")
    with pytest.raises(NotExtractable, match="has changed since it was defined"):
        to_source(edited.first)


# Notebooks -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shell():
    main = sys.modules["__main__"]  # the shell puts its own module there
    shell = InteractiveShell.instance()
    yield shell
    InteractiveShell.clear_instance()
    sys.modules["__main__"] = main


def run_cells(shell, *cells: str) -> dict:
    for cell in cells:
        shell.run_cell(cell, store_history=True).raise_error()
    return shell.user_ns


KERNEL_CELL = """
@triton.jit
def add_one(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, shift(tl.load(x + at, mask=at < n)), mask=at < n)

def add(x):
    y = torch.empty_like(x)
    add_one[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), BLOCK=BLOCK)
    return y
"""
SHIFT = "@triton.jit\ndef shift(x):\n    return x + {}\n"


@pytest.mark.skipif(_mode.mode() == "none", reason="needs Triton")
def test_notebook_cells_redefined_definitions_and_magics(shell, tmp_path):
    """The latest definition counts, wherever its cell is."""
    names = run_cells(
        shell,
        "%pwd\nimport course_lib",
        "import torch, triton\nimport triton.language as tl\nBLOCK = 16",
        SHIFT.format(5),
        KERNEL_CELL,
        "class Pair:\n    a = 1",
        "def pair():\n    return Pair().a",
        SHIFT.format(1),
    )
    source = to_source(names["add"])
    assert source.count("def shift") == 1
    assert "return x + 1" in source
    printed = run_alone(source, tmp_path, "print(add(torch.zeros(3)).tolist())")
    assert printed.strip() == "[1.0, 1.0, 1.0]"
    assert "class Pair" in to_source(names["pair"])
    if _mode.mode() == "interpreter":
        assert names["add"](torch.zeros(3)).tolist() == [1, 1, 1]


@pytest.mark.skipif(_mode.mode() != "interpreter", reason="only the interpreter leaks names")
def test_a_name_lent_by_the_interpreter_is_not_taken_for_an_import(shell):
    """`np` was never imported in the notebook; after one launch it is there all the same."""
    names = run_cells(
        shell,
        "import course_lib, torch, triton\nimport triton.language as tl\nBLOCK = 16",
        SHIFT.format(1),
        KERNEL_CELL,
        "add(torch.zeros(3))",
        "def forgetful(x):\n    return np.ceil(x)",
    )
    assert "np" in names
    with pytest.raises(NotExtractable, match="`np`, which was never imported"):
        to_source(names["forgetful"])
    assert "import triton.language as tl" in to_source(names["add"])
    run_cells(shell, "import numpy as np")
    assert "import numpy as np" in to_source(names["forgetful"])


def test_wrappers_come_off():
    assert python_function(own.kernel).__name__ == "kernel"
    assert python_function(flash_forward).__name__ == "flash_forward"
    assert torch.float16 is own.HALF
