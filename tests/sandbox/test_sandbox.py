"""The walls themselves: what a confined child cannot do, and what no kernel's source may hold."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from sandbox.test_hostile import lives, processes

from course_lib.sandbox import allowed, bubblewrap, folder, kernel_source, syscalls
from course_lib.sandbox import workshop as workshop_module
from course_lib.sandbox.workshop import InfrastructureError, Workshop, probe


def test_the_probe_finds_every_way_out_closed(workshop):
    level, held = probe(workshop)
    assert [name for name, was_refused in held.items() if not was_refused] == []
    assert len(held) >= 11
    assert level == "full"


FCNTL = """
import errno, fcntl, os


def tried(file, *what):
    try:
        return fcntl.fcntl(file, *what) >= 0
    except OSError as error:
        return errno.errorcode[error.errno]


def echo(x):
    with open(os.devnull) as file:
        mine, flags = os.getpid(), fcntl.fcntl(file, fcntl.F_GETFL)
        return [
            tried(file, fcntl.F_DUPFD, 0), tried(file, fcntl.F_DUPFD_CLOEXEC, 0),
            tried(file, fcntl.F_GETFD), tried(file, fcntl.F_SETFD, 1), tried(file, fcntl.F_GETFL),
            tried(file, fcntl.F_SETFL, flags | os.O_NONBLOCK),
            tried(file, fcntl.F_SETFL, flags | os.O_ASYNC), tried(file, fcntl.F_SETOWN, mine),
            tried(file, fcntl.F_SETSIG, 10), tried(file, 15, b"\\0" * 8),  # F_SETOWN_EX
            tried(file, fcntl.F_SETLEASE, 2), tried(file, fcntl.F_NOTIFY, 0),
        ]
"""


def test_a_file_may_be_duplicated_and_flagged_and_sends_no_signals(workshop):
    with workshop.student() as child:
        _ask(child, do="load", program=FCNTL, slug="ex-0-1", function="echo", run=None)
        assert _case(child, 1)["result"] == [True] * 6 + ["EPERM"] * 6


def test_a_filter_without_fcntls_arguments_lowers_the_level(monkeypatch):
    """The probe sees it: with the calls of before, signals by file are not held back."""
    monkeypatch.setattr(workshop_module, "_START", f"{UNGUARDED}{workshop_module._START}")
    with Workshop() as fresh:
        level, held = probe(fresh)
    assert [name for name, was_refused in held.items() if not was_refused] == ["signal by file"]
    assert level == "limits-only"


UNGUARDED = """
import sys; sys.path.append(sys.argv[1]); from course_lib.sandbox import seccomp
seccomp._only_own_flags = lambda: [(seccomp._RETURN, 0, 0, seccomp._ALLOW)]
"""


AGAIN = (Path(__file__).parents[1] / "hostile" / "import_torch_once_more.py").read_text()
NO_PACKAGE_IS_CLOSED = """
import sys; sys.path.append(sys.argv[1]); from course_lib.sandbox import profile
profile._packages = lambda *names: []
"""


def _attention_without_torch(workshop, program):
    """Return what the function says where there is no torch, and the child's memory map."""
    ones = np.ones((2, 4), np.float32)
    with workshop.without_torch() as child:
        _ask(child, do="load", program=program, slug="ex-1-2", function="naive_attention", run=None)
        return _case(child, ones, ones, ones), Path(f"/proc/{child.pid}/maps").read_text()


@pytest.mark.parametrize("is_closed", [True, False])
def test_torch_is_found_again_only_where_its_files_are_open(monkeypatch, is_closed):
    if not is_closed:
        monkeypatch.setattr(
            workshop_module, "_START", NO_PACKAGE_IS_CLOSED + workshop_module._START
        )
    with Workshop() as fresh:
        answer, memory = _attention_without_torch(fresh, AGAIN)
    assert ("libtorch" in memory) is not is_closed
    if is_closed:
        assert {"PermissionError", "ModuleNotFoundError"} & set(answer["error"]["kinds"])
    else:
        np.testing.assert_allclose(answer["result"], 1)


def test_no_file_of_torch_can_be_read_where_there_is_none(workshop):
    files = [str(file) for file in Path(torch.__file__).parent.rglob("*") if file.is_file()]
    assert any(name.endswith("libtorch_cpu.so") for name in files)
    with workshop.without_torch() as child:
        assert _ask(child, do="probe", victim=os.getpid(), closed=files)["answers"]
    with workshop.student() as child:
        assert not _ask(child, do="probe", victim=os.getpid(), closed=files)["answers"]


@pytest.mark.parametrize(
    "line",
    [
        "import torch.nn.functional as F",
        "from torch import Tensor, nn",
        "import torch; from torch.nn import functional",
    ],
)
def test_torch_may_be_named_where_there_is_none(workshop, line):
    program = f"""{line}
import numpy as np
import torch


@torch.no_grad()
def naive_attention(q: torch.Tensor, k, v):
    if isinstance(q, torch.Tensor) or torch.is_tensor(q):
        q = q.numpy()
    with torch.inference_mode():
        return q + 1
"""
    answer, _ = _attention_without_torch(workshop, program)
    assert (answer["result"] == 2).all()


def test_the_list_of_what_is_open_holds_no_answers_and_nothing_that_is_gone(monkeypatch):
    """After a move the walls still stand around something: a name that is gone is an error."""
    closed = {file.relative_to(allowed.COURSE).parts[0] for file in allowed.closed_files()}
    assert {"attention", "kernels", "cli"} <= closed
    specs = Path(importlib.util.find_spec("course_lib.specs").origin)
    assert specs in allowed.closed_files()
    monkeypatch.setattr(allowed, "_READABLE", (*allowed._READABLE, "accounting_of_old"))
    with pytest.raises(RuntimeError, match="accounting_of_old"):
        allowed.readable()


def test_a_zygote_that_holds_answers_does_not_start(monkeypatch):
    """The guard sees a module that is not on the list, and every module of the course is asked."""
    *_, student, _ = workshop_module._IMPORTS["interpreter"]
    holding = ("course_lib.attention.naive", student)
    monkeypatch.setitem(workshop_module._IMPORTS, "interpreter", holding)
    with pytest.raises(InfrastructureError, match=r"imported answers: .*attention\.naive"):
        workshop_module.Zygote("interpreter").close()


def test_an_answer_that_can_be_read_or_is_not_there_lowers_the_level(workshop, tmp_path):
    there, gone = Path(os.__file__), tmp_path / "gone.py"
    with workshop.student() as child:
        for closed in ([str(there)], [str(gone)], []):
            held = _ask(child, do="probe", victim=os.getpid(), closed=closed)
            assert held["answers"] is False
            assert held["memory"]


def test_the_zygotes_environment_is_not_ours(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "x")
    program = "import os\ndef echo(x):\n    return sorted(os.environ)\n"
    with Workshop() as fresh, fresh.without_torch() as child:
        _ask(child, do="load", program=program, slug="ex-0-1", function="echo", run=None)
        names = _case(child, 1)["result"]
    assert "SECRET_TOKEN" not in names
    assert {"OMP_NUM_THREADS", "TRITON_INTERPRET"} <= set(names)


def test_a_child_holds_no_answers(workshop):
    program = "import sys\ndef echo(x):\n    return [m for m in sys.modules if m[:6] == 'course']\n"
    with workshop.student() as child:
        _ask(child, do="load", program=program, slug="ex-0-1", function="echo", run=None)
        loaded = _case(child, 1)["result"]
    secret = ("course_lib.specs", "course_lib.attention", "course_lib.kernels")
    assert "course_lib" in loaded
    assert not [name for name in loaded if name.startswith(secret)]
    assert "course_lib.checking" not in loaded


def test_the_zygote_has_one_thread_or_its_children_could_hang(workshop):
    with workshop.student():
        pid = workshop._zygotes["interpreter"]._process.pid
        assert len(os.listdir(f"/proc/{pid}/task")) == 1


@pytest.fixture
def light() -> Iterator[Workshop]:
    """Give a workshop to kill zygotes in; asked for children without torch, it starts quickly."""
    with Workshop() as light:
        yield light


def test_a_zygote_that_was_killed_is_replaced(light):
    with light.without_torch():
        pass
    os.kill(light._zygotes["without torch"]._process.pid, 9)
    with light.without_torch() as child:
        assert _ask(child, do="probe", victim=os.getpid(), closed=[])["fork"]


def test_a_zygote_that_dies_under_a_child_is_the_machines_fault(light):
    child = light.without_torch()
    os.kill(light._zygotes["without torch"]._process.pid, 9)
    with pytest.raises(InfrastructureError):
        child.end()


KILLED = """
import os, sys
from course_lib.sandbox.folder import Folder
kept = Folder()
print(kept.name, flush=True)
sys.stdin.read()
"""

HOLDS_A_ZYGOTE = """
import sys
from course_lib.sandbox.workshop import Workshop
workshop = Workshop()
with workshop.without_torch():
    print(workshop._zygotes["without torch"].folder.name, flush=True)
    sys.stdin.read()
"""


def test_folders_of_killed_owners_are_removed_and_no_others(tmp_path, monkeypatch):
    """Left alone: a living owner's, one just being made, a link, and whatever has another name."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("course-grade-new", "other-folder"):
        (tmp_path / name).mkdir()
    (tmp_path / "course-grade-link").symlink_to(tmp_path / "other-folder")
    owners = [
        subprocess.Popen(
            [sys.executable, "-c", KILLED],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
        for _ in range(2)
    ]
    try:
        dead, living = (Path(owner.stdout.readline().strip()) for owner in owners)
        mine = folder.Folder()
        owners[0].kill()
        owners[0].wait()
        assert dead.exists()
        assert folder.sweep() == [dead]
        left = {path.name for path in tmp_path.iterdir()}
        names = {living.name, Path(mine.name).name}
        assert left == {"course-grade-new", "other-folder", "course-grade-link"} | names
    finally:
        for owner in owners:
            owner.kill()
            owner.communicate()
    mine.cleanup()
    assert folder.sweep() == [living]


def test_a_killed_workers_folder_goes_with_the_next_zygote(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    worker = subprocess.Popen(
        [sys.executable, "-c", HOLDS_A_ZYGOTE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    with worker:
        left = Path(worker.stdout.readline().strip())
        worker.kill()
    assert left.parent == tmp_path
    assert left.exists()
    with Workshop() as fresh, fresh.without_torch():
        assert not left.exists()


HOLDS_AN_ASSEMBLER = """
import sys, time
import torch
from course_lib.sandbox.workshop import Workshop
source = '''@triton.jit
def kernel(x, n):
    if n == -12345:
        z = tl.load(x + tl.arange(0, 32768))
        for _ in tl.static_range(60):
            z = z * z + tl.exp(z)
        tl.store(x + tl.arange(0, 32768), z)
'''
launch = {"source": source, "name": "kernel", "grid": [1], "options": {}, "arch": 80}
launch["args"] = {"x": torch.zeros(64), "n": 63}
with Workshop(outer="outer" in sys.argv) as workshop:
    with workshop.compiler(cpu_seconds=300, memory_bytes=8 << 30) as child:
        child.ask(launch, time.monotonic() + 300)
"""


@pytest.mark.parametrize("outer", ["", "outer"])
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_an_assembler_ends_with_those_who_wait_for_it(outer, sent):
    """All of a group are sent a signal, as by `timeout`; the assembler is in another group."""
    if outer and (why := bubblewrap.problem()):
        pytest.skip(why)
    worker = subprocess.Popen(
        [sys.executable, "-c", HOLDS_AN_ASSEMBLER, outer], start_new_session=True
    )
    end = time.monotonic() + 120
    while not (found := [p for p in processes(worker.pid) if "ptxas" in program_of(p)]):
        assert time.monotonic() < end
        time.sleep(0.1)
    below_it = processes(worker.pid)
    os.killpg(worker.pid, sent)
    assert worker.wait(10) == -sent
    end = time.monotonic() + 10
    try:
        while any(map(lives, below_it)):
            assert time.monotonic() < end, found
            time.sleep(0.05)
    finally:
        for pid in filter(lives, below_it):
            os.kill(pid, signal.SIGKILL)


def program_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text()
    return ""


def test_numbers_of_system_calls_agree_between_the_lists():
    for machine in ("x86_64", "aarch64"):
        allowed = syscalls._table(syscalls._ALLOWED[machine])
        denied = syscalls._table(syscalls._DENIED[machine])
        guarded = syscalls._table(syscalls._GUARDED[machine])
        numbers = [*allowed.values(), *denied.values()]
        assert len(set(numbers)) == len(numbers)
        assert not set(guarded.values()) & set(allowed.values())
        for way_out in ("socket", "connect", "ptrace", "kill", "execve", "clone", "fork", "memfd"):
            assert way_out not in allowed


def _ask(child, **request):
    return child.ask(request, time.monotonic() + 30)


def _case(child, *args):
    return _ask(child, do="case", args=args, kwargs={}, counted=False, kernel=False)


def test_a_result_that_cannot_be_sent_is_said_to_be_so(workshop):
    """The process has not ended: it hears the next case."""
    program = "def echo(x):\n    for _ in range(x):\n        x = [x]\n    return x\n"
    with workshop.student() as child:
        _ask(child, do="load", program=program, slug="ex-0-1", function="echo", run=None)
        for depth in (100, 50_000):
            assert "nested too deeply" in _case(child, depth)["error"]["text"]
        assert _case(child, 1)["result"] == [1]


# Kernels ----------------------------------------------------------------------------------------

HEAD = "import triton\nimport triton.language as tl\n\n"
GOOD = """@triton.jit
def helper(x, BLOCK: tl.constexpr = 16):
    return x + tl.zeros((BLOCK,), tl.float32)


@triton.jit
def kernel(x, out, n, BLOCK: tl.constexpr):
    m = tl.full((BLOCK,), float("-inf"), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tile = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
        m = tl.maximum(m, tile)
        if start == 0:
            m += helper(m, BLOCK)[:]
    tl.static_assert(BLOCK > 0, "positive")
    tl.store(out, tl.max(tl.where(m > 0, m, -m), 0).to(out.dtype.element_ty))
"""


def test_a_gathered_source_is_forgotten_when_a_name_changes_its_meaning(tmp_path):
    """What is remembered between launches follows globals, helpers and captured values."""
    file = tmp_path / "gathered.py"
    file.write_text(
        HEAD + "SCALE = tl.constexpr(2.0)\n\n\n"
        "@triton.jit\ndef scaled(x):\n    tl.store(x, tl.load(x) * SCALE)\n"
    )
    spec = importlib.util.spec_from_file_location("gathered", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    first = kernel_source.gather(module.scaled)
    assert kernel_source.gather(module.scaled) is first
    module.SCALE = module.tl.constexpr(3.0)
    assert "3.0" in kernel_source.gather(module.scaled)[0]
    assert "3.0" not in first[0]


def test_the_shortcuts_of_the_interpreter_change_no_result():
    """dtypes and broadcasts are what Triton's own are, in a process that has not been changed."""
    done = subprocess.run(
        [sys.executable, "-c", SHORTCUTS], capture_output=True, text=True, cwd=Path.cwd()
    )
    assert done.returncode == 0, done.stderr


SHORTCUTS = """
import course_lib, itertools, torch, triton
import triton.language as tl
from triton.language import random
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter
from course_lib.accounting.interpreter_shortcuts import shortened

own_philox = random.philox_impl
own_dtype, own_broadcast = interpreter._get_np_dtype, TritonSemantic.broadcast_impl_value
own_check = TritonSemantic.binary_op_type_checking_impl

def described():
    # all that is known of types, and of tensors of them, made twice
    pointers = [tl.pointer_type(tl.float32), tl.pointer_type(tl.float32, const=True)]
    for kind in [tl.int1, tl.float16, tl.int64, *pointers] * 2:
        for sizes in ([4], [4, 2], [tl.constexpr(4), 2], tl.tuple([2, 2, 1])):
            made = tl.block_type(kind, sizes)
            x = tl.tensor(None, made)
            yield str(made), made.numel, list(made.shape), type(made.shape), made.element_ty, x.type
            yield [n.value for n in x.shape], type(x.shape), x.numel.value, x.dtype, sorted(vars(x))
        x = tl.tensor(None, kind)
        yield sorted(vars(x)), str(x.shape), type(x.shape), x.numel.value, x.type, x.dtype

before = list(described())
shortcuts = shortened()
shortcuts.__enter__()
assert list(described()) == before
for wrong in ([3], [], [4, -2], [4.0], [[4]], [None], 4, "4"):
    for _ in range(2):
        try:
            tl.block_type(tl.int1, wrong)
        except (AssertionError, AttributeError, TypeError, ValueError):
            continue
        raise AssertionError(wrong)
scalars = [tl.int1, tl.float16, tl.float32, tl.bfloat16, tl.int32, tl.int64, tl.uint8]
scalars.append(tl.pointer_type(tl.float32))
kinds = scalars + [tl.block_type(kind, [4, 2]) for kind in scalars]
assert all(interpreter._get_np_dtype(kind) == own_dtype(kind) for kind in kinds)
assert interpreter._get_np_dtype is not own_dtype

semantic = TritonSemantic(interpreter.interpreter_builder)

def made(shape):
    value = semantic.scalar_constant(3.0, tl.float32)
    return semantic.splat(value, shape) if shape else value

shapes = [[], [1], [4], [4, 4], [1, 4], [4, 1], [2, 4, 4]]
for a, b in itertools.product(shapes, shapes):
    ours = semantic.broadcast_impl_value(made(a), made(b))
    theirs = own_broadcast(semantic, made(a), made(b))
    for x, y in zip(ours, theirs):
        assert x.type == y.type, (a, b)
        assert x.handle.data.shape == y.handle.data.shape

def operands():
    # scalars, tiles, numbers, pointers
    for kind in scalars[:-1]:
        number = 0 if kind == tl.bfloat16 else 3  # of which the interpreter makes no constant
        yield from (semantic.scalar_constant(number, kind), semantic.full([4, 2], number, kind))
    yield semantic.full([4, 1], 5, tl.int32)
    yield semantic.full([1, 2], 5.0, tl.float32)
    address = interpreter.TensorHandle(semantic.full([4], 64, tl.uint64).handle.data, scalars[-1])
    yield tl.tensor(address, tl.block_type(scalars[-1], [4]))
    yield from (2, -7, 2**31, -(2**40), 2**70, 1.5, 1e300, float("nan"), True)

def checked(check, *operands_and_how):
    try:
        found = check(semantic, *operands_and_how)
    except Exception as error:
        return type(error), str(error)
    return [(str(x.type), x.handle.data.dtype, str(x.handle.data)) for x in found]

for how in ((), (True, True), (True, False), (False, False, True, True), (False, False, False)):
    for a, b in itertools.product(operands(), operands()):
        for _ in range(2):
            ours = checked(TritonSemantic.binary_op_type_checking_impl, a, b, *how)
            theirs = checked(own_check, a, b, *how)
            assert ours == theirs, (how, a, b, ours, theirs)

@triton.jit
def draws(out, seed, WIDE: tl.constexpr, ROUNDS: tl.constexpr):
    lanes = tl.arange(0, 64)
    place = lanes.to(tl.int64) * 3_000_000_019 if WIDE else lanes * 12345
    words = tl.randint4x(seed, place, ROUNDS)
    for i in tl.static_range(4):
        tl.store(out + i * 64 + lanes, words[i].to(tl.int64))
    tl.store(out + 256, tl.randint(seed, tl.program_id(0), ROUNDS).to(tl.int64))

def drawn(*how):
    out = torch.empty(257, dtype=torch.int64)
    draws[(1,)](out, *how)
    assert out.unique().numel() == 256  # the last is drawn at the place of the first
    return out

for how in itertools.product((0, 7, 2**31 - 2, 2**40 + 3), (False, True), (10, 7)):
    short = random.philox_impl
    ours = drawn(*how)
    random.philox_impl = own_philox
    assert torch.equal(ours, drawn(*how)), how
    random.philox_impl = short
assert short is not own_philox

shortcuts.__exit__(None, None, None)
assert random.philox_impl is own_philox
assert interpreter._get_np_dtype is own_dtype
assert TritonSemantic.broadcast_impl_value is own_broadcast
assert TritonSemantic.binary_op_type_checking_impl is own_check is not None
assert list(described()) == before
"""


def test_an_ordinary_kernel_is_let_pass():
    assert "def kernel" in kernel_source.clean(HEAD + "LOG2E = tl.constexpr(1.44)\n\n" + GOOD)


def test_a_kernel_may_call_its_own_names_what_it_likes():
    """Arguments, assignments, loop variables, helpers and constants may hide Python's builtins."""
    body = """type = 3


@triton.jit
def sorted(x):
    return x + type


@triton.jit
def kernel(input, out, n, BLOCK: tl.constexpr = type):
    id = tl.program_id(0)
    sum, (open) = 0.0, id
    for next in range(0, n, BLOCK):
        sum += sorted(tl.load(input + next + open))
    hash: tl.constexpr = 2
    tl.store(out, sum * hash)
"""
    assert "sorted(tl.load(input" in kernel_source.clean(HEAD + body)


@pytest.mark.parametrize(
    ("imports", "name"),
    [
        ("import triton.language as tla", "tla"),
        ("from triton import language as lang", "lang"),
        ("import triton as t", "t.language"),
        ("import triton.language as tl\nimport triton.language as tl2", "tl2"),
    ],
)
def test_tritons_language_may_have_any_name(imports, name):
    """It is run as it would be in Triton, and what is not for kernels stays so under any name."""
    text = f"{imports}\n\n{GOOD}".replace("tl.", f"{name}.")
    module = kernel_source.load(
        f"{text}    {name}.static_assert({name}.math.exp(1.0) > 2)\n", "kernel"
    )
    x, out = torch.randn(40), torch.zeros(1)
    module.kernel[(1,)](x, out, 40, BLOCK=16)
    assert out > 0
    with pytest.raises(kernel_source.NotTriton):
        kernel_source.clean(text.replace("arange(", "core.builtin("))


@pytest.mark.parametrize(
    "imports",
    [
        "from triton.language.standard import zeros, sum",
        "from triton.language import load, float32 as f4, math as m",
        "from triton import cdiv, jit, autotune, Config",
        "from triton.runtime.jit import jit",
        "from triton.runtime.autotuner import autotune, Config",
        "from triton.language.core import constexpr",
        "from triton.language.extra import libdevice",
        "CONFIGS = [triton.Config({'BLOCK': 16}, num_warps=4)]",
    ],
)
def test_what_extraction_imports_for_a_kernel_is_let_pass(imports):
    assert "def kernel" in kernel_source.clean(f"{HEAD}{imports}\n\n{GOOD}")


@pytest.mark.parametrize(
    "line",
    [
        "tl.static_assert(n > 0, f'n is {n}')",
        "tl.static_assert(n > 0, msg=f'{n.shape!r:>9}')",
        "tl.device_assert(n > 0, f'{n + 1}')",
        "tl.static_print(f'{n}')",
        "assert n > 0, f'{n}'",
    ],
)
def test_an_f_string_in_a_message_is_kept_as_text(line):
    text = kernel_source.clean(f"{HEAD}@triton.jit\ndef kernel(x, n):\n    {line}\n")
    assert not [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.JoinedStr)]
    assert "{n" in text


def test_a_compiler_gets_the_f_string_itself():
    """An f-string of a tensor is text to the interpreter, and Triton's compiler refuses it."""
    text = f"{HEAD}@triton.jit\ndef kernel(x, n):\n    tl.static_print(f'{{n}}')\n"
    assert "f'{n}'" in kernel_source.clean(text, compiled=True)
    with pytest.raises(kernel_source.NotTriton):
        kernel_source.clean(text.replace("{n}", "{n.handle}"), compiled=True)


def test_a_docstring_cannot_hide_a_kernel():
    """Triton's interpreter runs what follows the last line that begins with "def "."""
    quotes, hidden = '"""', "def kernel(x):\n        import os\n        x = "
    head = f"{HEAD}@triton.jit\ndef kernel(x):\n    {quotes}\n    {hidden}{quotes}\n"
    assert "os" not in kernel_source.clean(f"{head}    y = '{quotes}'\n")
    assert "pass" in kernel_source.clean(head)


@pytest.mark.parametrize(
    "line",
    [
        "np.load('f')",
        "np.load('f', allow_pickle=True)",
        "_interpreter.load(x, x, x, x)",
        "_patch_attr(x, x, x, x)",
        "inspect.type",
        "tl.load(x, _semantic=x)",
        "tl.load(**x)",
        "interpreter_builder.load(x)",
        "TensorHandle(x, x)",
        "y = undefined",
        "math.sqrt(x)",
        "import os",
        "x.handle.data.tofile('f')",
        "().__class__",
        "getattr(x, 'handle')",
        "tl.static_print(f'{x.handle.data!r}')",
        "tl.static_assert(x > 0, msg=f'{x.__class__}')",
        "assert x, f'{x:{open}}'",
        "y: __import__('os').system('true') = 1",
        "y: x.handle = 1",
        "open('f')",
        "tl.core.os.system('id')",
        "tl.core.builtin",
        "triton.runtime.driver.active",
        "triton.language.core.sys",
        "triton.compiler",
        "torch.load('f')",
        "tl.inline_asm_elementwise('', '', [], tl.int32, True, 1)",
        "tl.store.fn.__globals__",
        "x.to = 1",
        "tl.load = 1",
        "x[0] = 1",
        "f'{x}'",
        "[y for y in x]",
        "(lambda: 0)()",
        "global x",
        "with x: pass",
        "eval('1')",
        "exec('1')",
        "print(x)",
        "__import__('os')",
        "(y := x)",
        "del x",
        "raise x",
        "try:\n        pass\n    except: pass",
        "def inner(): pass",
        "tl = x",
        "x.interpreter_builder",
        "tl.math.sys",
        "tl.str_to_ty('tensordesc<fp32[1],open>', 0)",
        "tl.tuple_type(x)",
    ],
)
def test_a_kernel_with_python_in_it_is_refused(line):
    with pytest.raises(kernel_source.NotTriton):
        kernel_source.clean(f"{HEAD}@triton.jit\ndef kernel(x):\n    {line}\n")


@pytest.mark.parametrize(
    "text",
    [
        "import os\n",
        "print(1)\n",
        "class A: pass\n",
        "x = open('f')\n",
        "from os import system\n",
        "from triton.runtime import driver\n",
        "from triton.language import core\n",
        "@triton.jit\ndef f(x=open('f')): pass\n",
        "@triton.jit\ndef f(*x): pass\n",
        "tl = 1\n",
        "x = open\n",
        "x = open\nopen = 1\n",
        "@triton.jit\ndef f(x=open): pass\n\nopen = 1\n",
        "x = [eval]\n",
        "__builtins__ = 1\n",
        "x = tl.load(1)\n",
        "float = 1\nx = float(2)\n",
        "import triton.language as triton\n",
        "import triton.language as t\n@triton.jit\ndef t(x): pass\n",
        "from triton import compile\n",
        "from triton.runtime.jit import JITFunction\n",
        "from triton.language import *\n",
        "from .triton import cdiv\n",
        "import triton.runtime\n",
        "import numpy as np\n",
        "from triton.language import str_to_ty\n",
        "\uff44el = triton.Config({})\n@triton.jit\ndef f(x):\n    \uff44el(x)\n",
        "\uff4cambda = triton.Config({})\n@triton.jit\ndef f(x):\n    x[\uff4cambda:x]\n",
        "x" * (100 << 10),
        "-" * 20_000 + "1",
    ],
    ids=lambda text: text[:30],
)
def test_a_file_with_python_in_it_is_refused(text):
    with pytest.raises(kernel_source.NotTriton):
        kernel_source.clean(HEAD + text)


@pytest.mark.parametrize(
    "holds",
    [
        "NOTHING is None",
        "tl.constexpr(True) is True",
        "not (tl.constexpr(1) is not 1)",
        "tl.arange(0, 4).shape[0] is 4",
        "(1, 2) == [1, 2]",
        "absent is None",
        "x.dtype is not tl.float32",
    ],
)
def test_a_kernel_cannot_tell_that_it_is_interpreted(holds):
    """Triton's compiler calls each of these true; Python, asked plainly, the first five false."""
    body = f"""NOTHING = tl.constexpr(None)


@triton.jit
def kernel(x, out, absent):
    if {holds}:
        tl.store(out, 1.0)
"""
    out = torch.zeros(1)
    kernel_source.load(HEAD + body, "kernel").kernel[(1,)](out, out, None)
    assert out == 1


def test_decorators_are_replaced_not_run():
    text = kernel_source.clean(HEAD + "@open('/tmp/f', 'w')\n@triton.jit\ndef kernel(x): pass\n")
    assert "open" not in text
    assert "@triton.jit" in text
