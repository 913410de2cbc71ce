"""The examiner: right kernels pass in every honest style, wrong ones fail as in a notebook."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest
import torch
from corpus import corpus, sample
from drawn import drawn, swept
from helpers import code

from course_lib.classroom.examine import draw_cases, examine
from course_lib.judging.provenance import MOST_SCALARS, MOST_SOURCES, Provenance
from course_lib.judging.replay import Replay, Unclear
from course_lib.judging.report import Verdict
from course_lib.judging.spec import Case
from course_lib.sandbox.channel import TooLate
from course_lib.specs import EXERCISES, find


def examined(workshop, name, program, cases=slice(None)):
    exercise = find(name)
    drawn = draw_cases(exercise, b"secret", "x")[cases]
    return examine(workshop, exercise, program, drawn, b"secret")


def right_text(exercise):
    return corpus("right", exercise.id)[0].text


# Right, and written differently -------------------------------------------------------------------

HEAD = """
import torch
import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
MINUS_INFINITY: tl.constexpr = float("-inf")
"""

DESCRIPTORS = """
@triton.jit
def kernel(q, k, v, o, scale, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    h = tl.program_id(0)
    qd = tl.make_tensor_descriptor(q + h * M * D, [M, D], [D, 1], [M, D])
    kd = tl.make_tensor_descriptor(k + h * N * D, [N, D], [D, 1], [N, D])
    vd = tl.make_tensor_descriptor(v + h * N * D, [N, D], [D, 1], [N, D])
    s = tl.dot(qd.load([0, 0]), kd.load([0, 0]).T, input_precision="ieee") * (scale * LOG2E)
    p = tl.exp2(s - tl.max(s, 1, keep_dims=True))
    p = p / tl.sum(p, 1)[:, None]
    value = vd.load([0, 0])
    od = tl.make_tensor_descriptor(o + h * M * D, [M, D], [D, 1], [M, D])
    acc = tl.dot(p.to(value.dtype), value, input_precision="ieee")
    od.store([0, 0], acc.to(o.dtype.element_ty))


def one_tile_attention(q, k, v):
    q, k, v = (x.contiguous() for x in (q, k, v))
    o = torch.zeros_like(q)
    m, n, d = q.shape[2], k.shape[2], q.shape[3]
    kernel[(q.shape[0] * q.shape[1],)](q, k, v, o, d**-0.5, d, m, n)
    return o
"""

HOST_PREPARES = """
@triton.autotune(configs=[triton.Config({}, num_warps=4)], key=["M"])
@triton.jit
def kernel(scaled, kt, v, o, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    h, rows, cols, d = tl.program_id(0), tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    a = tl.load(scaled + h * M * D + rows[:, None] * D + d[None, :])
    b = tl.load(kt + h * N * D + d[:, None] * N + cols[None, :])
    c = tl.load(v + h * N * D + cols[:, None] * D + d[None, :])
    s = tl.dot(a, b, input_precision="ieee")
    p = tl.exp(s - tl.max(s, 1)[:, None])
    acc = tl.dot(p, c.to(tl.float32), input_precision="ieee") / tl.sum(p, axis=1)[:, None]
    tl.store(o + h * M * D + rows[:, None] * D + d[None, :], acc)


def one_tile_attention(q, k, v):
    b, h, n, d = q.shape
    o = torch.full((b * h, n, d), float("nan"), dtype=torch.float32)
    kernel[lambda meta: (b * h,)](
        (q.float() * d**-0.5).reshape(-1, n, d), k.transpose(-1, -2).float().contiguous(),
        v.reshape(b * h, -1, d), o, D=d, M=n, N=k.shape[2],
    )
    return o.view(b, h, n, d).to(q.dtype)
"""

MADE_IN_A_FUNCTION = """
def make(size):
    @triton.jit
    def helper(x):
        return x - tl.max(x, 1)[:, None]

    @triton.jit
    def kernel(q, k, v, o, scale, stride, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
        h = tl.program_id(axis=0).to(tl.int64)
        rows = tl.arange(0, M)[:, None]
        cols = tl.arange(0, N)[:, None]
        d = tl.arange(0, D)[None, :]
        a, b = tl.load(q + h * M * D + rows * D + d), tl.load(k + h * N * D + cols * D + d)
        s = tl.dot(a, tl.trans(b), input_precision="ieee") * scale
        p = tl.exp(helper(s))
        total = tl.zeros((M,), dtype=tl.float32)
        for _ in tl.static_range(1):
            total += tl.sum(p, 1)
        x = tl.load(v + h * N * D + cols * D + d)
        acc = tl.dot(p.to(x.dtype), x, input_precision="ieee") / total[:, None]
        tl.store(o + h * M * D + rows * D + d, acc)

    return kernel


kernel = make(1)


def one_tile_attention(q, k, v):
    o = q.new_empty(q.shape)
    kernel[q.shape[0] * q.shape[1], 1, 1](
        q.contiguous(), k.contiguous(), v.contiguous(), o, q.shape[-1] ** -0.5, 0,
        D=q.shape[3], M=q.shape[2], N=k.shape[2], num_warps=4,
    )
    return o
"""


A_LAUNCH_FOR_EACH_HEAD = """
@triton.jit
def kernel(tensors, strides, shape, scale, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    rows, cols, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    q = tl.load(tensors[0] + rows[:, None] * strides[0][0] + d[None, :] * strides[0][1])
    k = tl.load(tensors[1] + cols[:, None] * strides[1][0] + d[None, :] * strides[1][1])
    v = tl.load(tensors[2] + cols[:, None] * strides[2][0] + d[None, :] * strides[2][1])
    s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    p = tl.exp(s - tl.max(s, 1)[:, None])
    p = (p / tl.sum(p, 1)[:, None]).to(v.dtype)
    acc = tl.dot(p, v, input_precision="ieee").to(tensors[3].dtype.element_ty)
    tl.store(tensors[3] + rows[:, None] * strides[3][0] + d[None, :] * strides[3][1], acc)


def one_tile_attention(q, k, v):
    o = torch.empty_like(q)
    for at in ((b, h) for b in range(q.shape[0]) for h in range(q.shape[1])):
        tensors = tuple(x[at] for x in (q, k, v, o))
        strides = tuple(x.stride() for x in tensors)
        kernel[(1,)](tensors, strides, tuple(q.shape), q.shape[3] ** -0.5,
                     D=q.shape[3], M=q.shape[2], N=k.shape[2])
    return o
"""

# The same in one launch: tuples of tensors and of strides, for all heads.
TUPLES = """
@triton.jit
def base(tensor, strides, H: tl.constexpr):
    h = tl.program_id(0)
    return tensor + h // H * strides[0] + h % H * strides[1]


@triton.jit
def kernel(tensors, strides, scale, H: tl.constexpr, D: tl.constexpr, M: tl.constexpr,
           N: tl.constexpr):
    rows, cols, d = tl.arange(0, M)[:, None], tl.arange(0, N)[:, None], tl.arange(0, D)[None, :]
    q = tl.load(base(tensors[0], strides[0], H) + rows * strides[0][2] + d * strides[0][3])
    k = tl.load(base(tensors[1], strides[1], H) + cols * strides[1][2] + d * strides[1][3])
    v = tl.load(base(tensors[2], strides[2], H) + cols * strides[2][2] + d * strides[2][3])
    s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    p = tl.exp(s - tl.max(s, 1)[:, None])
    p = (p / tl.sum(p, 1)[:, None]).to(v.dtype)
    acc = tl.dot(p, v, input_precision="ieee").to(tensors[3].dtype.element_ty)
    tl.store(base(tensors[3], strides[3], H) + rows * strides[3][2] + d * strides[3][3], acc)


def one_tile_attention(q, k, v):
    o = torch.empty_like(q)
    tensors = (q, k, v, o)
    kernel[(q.shape[0] * q.shape[1],)](
        tensors, tuple(x.stride() for x in tensors), q.shape[3] ** -0.5,
        H=q.shape[1], D=q.shape[3], M=q.shape[2], N=k.shape[2],
    )
    return o
"""

STYLES = [DESCRIPTORS, HOST_PREPARES, MADE_IN_A_FUNCTION, TUPLES]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.few(2)
def test_right_kernels_pass_in_other_styles(workshop, style):
    result = examined(workshop, "7.1", HEAD + style)
    assert result.report.passed, result.report.text()
    assert 0 < len(result.launches) <= 8


def test_a_launch_for_each_head_is_right_in_its_numbers_and_is_told_so(workshop):
    result = examined(workshop, "7.1", HEAD + A_LAUNCH_FOR_EACH_HEAD)
    assert result.report.failed_property == "is one launch", result.report.text()
    assert result.launches == [], "nobody compiles them, and tensors of all exercises are much"


# Wrong --------------------------------------------------------------------------------------------


WRONG = [one for one in corpus("wrong", "7.4") if one.expected[0] == "misconception"][::6]
FEW_WRONG = drawn(WRONG, lambda one: one.text)


@pytest.mark.parametrize("one", swept(WRONG, FEW_WRONG, lambda one: one.name))
def test_a_mistake_is_called_as_in_a_notebook(workshop, one):
    """The corpus says the name for a notebook; here the sandbox has to find the same."""
    result = examined(workshop, "7.4", one.text)
    assert result.report.verdict in (Verdict.INCORRECT, Verdict.ERROR)
    assert result.report.misconception == one.expected[1], result.report.text()


def test_nan_that_nobody_computed_is_no_misconception(workshop):
    source = sample("7.4/wrong/never_stores_o").text
    report = examined(workshop, "7.4", source).report
    assert (report.failed_property, report.misconception) == ("stores every row", "")


def test_what_leaves_its_tensors_is_named_and_ends_there(workshop):
    source = code(5).replace("mask=mask", "mask=None")
    result = examined(workshop, "5.2", source)
    assert result.report.failed_property == "stays inside its tensors", result.report.text()


KERNELS = [exercise for exercise in EXERCISES if exercise.kind == "kernel"]
FEW_KERNELS = drawn(KERNELS, right_text, few=3)


@pytest.mark.parametrize("exercise", swept(KERNELS, FEW_KERNELS, lambda exercise: exercise.id))
def test_a_right_kernel_passes_when_a_hard_case_is_the_one_that_is_replayed(
    workshop, exercise, monkeypatch
):
    """Zero rows and many scores that are alike must not leave it unclear who computed."""
    unclear = []
    again = Replay.again

    def watched(self, *args):
        try:
            return again(self, *args)
        except Unclear:
            unclear.append(exercise.id)
            raise

    monkeypatch.setattr(Replay, "again", watched)
    right = right_text(exercise)
    for case in draw_cases(exercise, b"secret", "x"):
        if case.shows:
            result = examine(workshop, exercise, right, [case], b"secret")
            assert result.report.passed, result.report.text()
    assert not unclear


@pytest.mark.parametrize(("times", "verdict"), [(1, Verdict.PASSED), (2, Verdict.ERROR)])
@pytest.mark.parametrize(("room", "does"), [("interpreter", "launch"), ("student", "case")])
def test_a_process_that_is_killed_twice_is_the_submissions_fault(
    workshop, monkeypatch, room, does, times, verdict
):
    """Nobody chooses *infrastructure*, which a person must look at, by ending a process."""
    left, start = [None] * times, getattr(workshop, room)

    def started(**limits):
        child = start(**limits)
        send = child.send

        def killed(message, **how):
            if message.get("do") == does and left:
                left.pop()
                os.kill(child.pid, signal.SIGKILL)
            return send(message, **how)

        child.send = killed
        return child

    monkeypatch.setattr(workshop, room, started)
    report = examined(workshop, "5.2", code(5)).report
    assert report.verdict is verdict, report.text()


# Where numbers come from --------------------------------------------------------------------------


def drawn(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_what_a_launcher_may_do_with_its_inputs(dtype):
    q, k = drawn(2, 33, 16, dtype=dtype), drawn(2, 50, 16, seed=1, dtype=dtype)
    honest = {
        "transposed": k.transpose(1, 2).contiguous(),
        "padded": torch.nn.functional.pad(q, (0, 0, 0, 31)),
        "padded with -inf": torch.nn.functional.pad(q, (0, 0, 0, 31), value=-torch.inf),
        "scaled": q * 0.25,
        "scaled in fp32": q.float() * 0.17677,
        "negated": -q,
        "repeated": k.repeat_interleave(4, 0),
        "packed": torch.cat([q, k], 1),
        "one head": q[0],
        "zeros": torch.zeros(512, 64),
        "unwritten": torch.full((512, 64), torch.nan),
        "offsets": torch.arange(100),
        "many offsets": torch.arange(0, 1 << 14, 2),
        "padded on all sides": torch.nn.functional.pad(torch.ones(5, 7), (1, 2, 3, 4)),
        "a row with a border": torch.tensor([1.0, 1.0, 0.0, 0.0]),
        "windows": q[0].flatten().unfold(0, 16, 8),
        "float64": q.double(),
        "NaN of many kinds": torch.arange(0x7FC00000, 0x7FC00040, dtype=torch.int32).view(
            torch.float32
        ),
        "a part, padded": torch.nn.functional.pad(k[:, :20], (0, 0, 0, 12)),
    }
    for name, tensor in honest.items():
        assert Provenance([q, k]).stranger({"x": tensor}) is None, name


def test_a_launcher_puts_nothing_into_its_inputs_that_the_kernel_is_to_leave_out():
    """Neither zeros nor anything else, whatever stood there, in whatever is cut off or added."""
    k, bad = drawn(2, 50, 16), drawn(2, 50, 16, seed=1)
    bad[0, 20:] = torch.nan
    there = torch.arange(50)[:, None] < torch.tensor([20, 41])[:, None, None]  # of each sequence
    for cleared in (
        torch.where(there, k, 0.0),
        torch.where(there, bad, 0.0),
        torch.where(there, k, -torch.inf).half(),
        torch.where(there, k, 0.0)[:, :45],
        torch.nn.functional.pad(torch.where(there, k, 0.0), (0, 0, 0, 14)),
    ):
        found = Provenance([k, bad]).launched({"args": {"k": cleared}, "grid": (1,), "source": ""})
        assert found
        assert "`k` is an input in which other numbers were put" in found.says


def test_a_mask_of_a_launcher_is_no_changed_input():
    """Though an input, cut to whole numbers, is full of 0 and 1."""
    mask = torch.ones(33, 33, dtype=torch.int8).tril()
    given = {"args": {"mask": mask}, "grid": (1,), "source": ""}
    found = Provenance([drawn(2, 50, 16)]).launched(given)
    assert found
    assert "`mask` holds numbers that are neither inputs nor written by a kernel" in found.says


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_answers_computed_elsewhere_are_strangers(dtype):
    q, k, v = (drawn(1, 1, 40, 16, seed=i, dtype=dtype) for i in range(3))
    answer = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    for x in (answer, answer.float(), answer.mT, -2 * answer, answer.float().view(torch.int32)):
        bits = {"x": x if x.is_floating_point() else x.repeat(1, 1, 2, 1)}
        assert Provenance([q, k, v]).stranger(bits) == "x"
    origins = Provenance([q, k, v])
    assert not origins.from_a_kernel(answer)
    origins.note_written([answer.clone()])
    assert origins.from_a_kernel((answer,))
    assert not origins.from_a_kernel((answer, answer.sum(-1)))
    assert origins.stranger({"x": answer}) is None


def carriers():
    """Return tensors that hold a hidden answer beside the values that are looked at."""
    bits = drawn(4096).view(torch.int32)
    planes = ((bits[None] >> torch.arange(32, dtype=torch.int32)[:, None]) & 1).to(torch.uint8)
    gaps = torch.zeros(8195)
    gaps[1:8192:2] = drawn(4096)
    nans = (bits.long() & 0xFFFFFFFF) | (0x7FF8 << 48)
    return {
        "payload of NaN": nans.view(torch.float64),
        "planes of bits": planes,
        "signs of zeros": torch.where(planes.bool(), 0.0, -0.0),
        "two infinities": torch.where(planes.bool(), torch.inf, -torch.inf),
        "between the elements": gaps.as_strided((2, 4097), (2, 2)),
        "integers": bits,
        "few integers of many bits": bits[:2000].view(torch.int64),
        "last bits": (drawn(4096, seed=1).view(torch.int32) ^ (bits & 15)).view(torch.float32),
    }


@pytest.mark.parametrize("name", carriers())
def test_hidden_answers_are_strangers(name):
    origins = Provenance([drawn(4096, seed=1), drawn(4096, seed=2)])
    assert origins.stranger({"x": (1, (carriers()[name], 2))}) == "x[1][0]"


@pytest.mark.parametrize(
    "made",
    [
        lambda i: torch.tensor([2**40 + i]),
        lambda i: torch.arange(2**40 + i, 2**40 + i + 5),
        lambda i: torch.arange(0, 2**42, 2**40 + i),
        lambda i: torch.full((3, 4), i / 7),
        lambda i: torch.nn.functional.pad(torch.full((3,), 2**40 + i), (1, 1)),
    ],
)
def test_a_constant_and_a_range_hold_numbers_too(made):
    """Many tensors of one number each are as good as a table."""
    origins = Provenance([drawn(64)])
    assert origins.stranger({"x": tuple(made(i) for i in range(40))}) is None
    assert origins.stranger({"x": tuple(made(i) for i in range(600))})


def launch(source="", **args):
    return {"source": source, "name": "kernel", "grid": [1], "args": args, "options": {}}


def test_numbers_and_sources_of_launches_are_counted():
    few = {f"x{i}": i for i in range(MOST_SCALARS - 1)}
    assert Provenance([]).too_many(launch(**few)) is None
    assert Provenance([]).too_many(launch(**few, y=(1, 2))) == "numbers as arguments"
    assert Provenance([]).too_many(launch(x="a" * 600)) == "numbers as arguments"
    one = Provenance([])
    found = [one.too_many(launch(x=i / 7)) for i in range(2000)]
    assert found[0] is None
    assert found[-1] == "numbers as arguments"
    one = Provenance([])
    found = [one.too_many(launch(f"x = {i}")) for i in range(MOST_SOURCES + 1)]
    assert found == [None] * MOST_SOURCES + ["different kernels"]
    assert Provenance([]).too_many(launch(f"x = {list(range(300))}")) == "numbers in its source"


def test_every_part_of_a_result_is_asked_where_it_comes_from():
    o, m, l_sum = drawn(4, 8), drawn(4, seed=1), drawn(4, seed=2).exp()
    origins = Provenance([])
    origins.note_written([o, m, l_sum])
    assert origins.from_a_kernel((o.half(), m, m + l_sum.log()))
    assert origins.from_a_kernel((2 * o, (m + l_sum.log2()) * 0.6931472))
    assert not origins.from_a_kernel((o, drawn(4, seed=3)))


def test_a_total_adds_partial_sums_not_a_copy():
    x = drawn(1000) + 0.5
    parts = x.reshape(-1, 10).sum(1)
    left_over = torch.cat([parts, torch.zeros(900)])  # zeros are no copy of anything
    for written, right in ((parts, True), (left_over, True), (x.clone(), False)):
        origins = Provenance([x])
        origins.note_written([written])
        assert origins.from_a_kernel(x.sum(0, keepdim=True)) is right


def test_looking_at_tensors_ends_in_time_and_memory():
    with pytest.raises(TooLate):
        Provenance([drawn(8)], deadline=time.monotonic() - 1).stranger({"x": drawn(9)})
    origins = Provenance([])
    for _ in range(100):
        origins.note_written([torch.zeros(1).expand(1 << 22)])
    assert sum(x.numel() for x in origins.sources.written) <= 1 << 24


# The replay ---------------------------------------------------------------------------------------


def secret():
    return np.random.default_rng(20)


def replayed(prepare, finish, kernel=torch.exp):
    """Return what a replay makes of ``finish(kernel(prepare(x)))``, and what is right for it."""
    x = drawn(6, 8)
    given = prepare(x)
    replay = Replay(Case("", (x,)), secret())
    written = kernel(given)
    replay.note(launch(x=given, o=torch.zeros_like(written)), {"o": written})
    again = replay.again(lambda now: {"o": kernel(now["args"]["x"])}, finish(written))
    (changed,) = replay.other_case.args
    return again, finish(kernel(prepare(changed)))


def test_a_plain_input_stays_since_anybody_may_make_its_numbers():
    """A right 7.2 that gave its kernel ``q.float()``, a column of ones, was refused at times."""
    plain, x = torch.zeros(6, 8).half(), drawn(6, 8)
    plain[:, 0] = 1
    for seed in range(8):  # half of them would halve the ones
        replay = Replay(Case("", (plain, x)), np.random.default_rng(seed))
        replay.note(launch(q=plain.float(), x=x, o=torch.zeros(6, 8)), {"o": plain.float() + x})
        got = replay.again(
            lambda now: {"o": now["args"]["q"] + now["args"]["x"]}, plain.float() + x
        )
        q, changed = replay.other_case.args
        assert torch.equal(got, q.float() + changed)
        assert not torch.equal(changed, x)


def test_an_input_of_few_numbers_changes_whatever_becomes_of_a_plain_one():
    """Else nothing would change where only the plain one's number was chosen."""
    plain, few = torch.zeros(2, 4), torch.tensor([[1.5, 2.5, 1.5, 1.5], [2.5, 1.5, 2.5, 1.5]])
    plain[:, 0] = 1
    for seed in range(32):
        replay = Replay(Case("", (plain, few)), np.random.default_rng(seed))
        assert not torch.equal(replay.other_case.args[1], few)


def test_other_inputs_are_the_secrets_and_commute_with_what_launchers_do():
    x = torch.cat([drawn(500), drawn(500), torch.tensor([0.0, torch.inf, -torch.inf, torch.nan])])

    def other(tensor, seed=20):
        return Replay(Case("", (tensor,)), np.random.default_rng(seed)).other_case.args[0]

    changed = other(x)
    assert 100 < int((changed[:500] == x[:500] / 2).sum()) < 400
    assert torch.all((changed[:500] == x[:500]) | (changed[:500] == x[:500] / 2))
    assert torch.equal(changed[:500], changed[500:1000]), "equal numbers stay equal"
    assert torch.equal(changed[1000:].nan_to_num(7), x[1000:].nan_to_num(7))
    assert torch.equal(other(x.flip(0))[4:], changed[:1000].flip(0))
    assert torch.equal(other(x.half())[:1000], changed[:1000].half())
    assert not torch.equal(other(x, seed=21)[:500], changed[:500])
    for seed in range(8):  # one number is halved in any case
        assert other(torch.ones(3), seed).tolist() == [0.5, 0.5, 0.5]
    assert other(torch.arange(4)).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "prepare",
    [
        torch.clone,
        lambda x: x.T,
        lambda x: x[:, 1:5],
        lambda x: 0.3 * x.double(),
        lambda x: (-1.44 * x).half(),
        lambda x: (1.44 * x.half()).T.contiguous(),
        lambda x: x.repeat(2, 3),
        lambda x: x.flip(0),
        lambda x: torch.stack([x, x.roll(1)]),
        lambda x: torch.nn.functional.pad(x, (0, 8)),
        lambda x: torch.nn.functional.pad(x, (0, 8), value=-torch.inf),
        lambda x: x.expand(3, 6, 8),
        lambda x: x.unfold(1, 4, 1),
    ],
)
@pytest.mark.parametrize(
    "finish",
    [
        torch.clone,
        lambda o: o.half(),
        lambda o: o[:, :4],
        lambda o: o.mT,
        lambda o: 0.7 * o,
        lambda o: -o.mT.half(),
    ],
)
def test_an_answer_of_a_kernel_follows_the_inputs(prepare, finish):
    got, right = replayed(prepare, finish)
    assert torch.allclose(got.float(), right.float(), rtol=1e-3)


def test_memory_that_a_launch_shares_is_shared_again():
    """Outputs may be slices of one buffer, or one tensor passed twice."""
    x, buffer = drawn(4, 8), torch.zeros(2, 4, 8)
    replay = Replay(Case("", (x,)), secret())
    given = launch(x=x, double=buffer[0], triple=buffer[1], again=buffer[1])
    replay.note(given, {"double": 2 * x, "triple": 3 * x, "again": 3 * x})

    def run(now):
        double, triple, again = (now["args"][key] for key in ("double", "triple", "again"))
        assert triple.data_ptr() == again.data_ptr()
        assert triple.data_ptr() - double.data_ptr() == 4 * 8 * 4
        y = now["args"]["x"]
        return {"double": 2 * y, "triple": 3 * y, "again": 3 * y}

    (changed,) = replay.other_case.args
    got = replay.again(run, (2 * x, 3 * x))
    assert torch.equal(got[0], 2 * changed)
    assert torch.equal(got[1], 3 * changed)


def test_another_tensor_that_is_written_now_counts():
    x = drawn(4, 8)
    replay = Replay(Case("", (x,)), secret())
    replay.note(launch(x=x, o=torch.zeros(4, 8), p=torch.ones(4, 8)), {"o": x.exp()})
    got = replay.again(lambda now: {"p": now["args"]["x"]}, x.exp())
    assert torch.equal(got, torch.zeros(4, 8)), "o is what it was before the launch"


def test_results_of_a_launch_for_each_head_are_joined():
    x = drawn(3, 4, 8)
    replay = Replay(Case("", (x,)), secret())
    for head in x:
        replay.note(launch(x=head, o=torch.zeros(4, 8)), {"o": head.exp()})
    got = replay.again(lambda now: {"o": now["args"]["x"].exp()}, x.exp())
    assert torch.equal(got, replay.other_case.args[0].exp())


def test_an_answer_from_elsewhere_does_not_follow():
    """The kernel copies numbers of its own, whatever it is given."""
    got, _ = replayed(torch.clone, torch.clone, lambda x: torch.arange(48.0).reshape(6, 8))
    assert torch.equal(got, torch.arange(48.0).reshape(6, 8))


def test_what_cannot_be_done_again_is_unclear():
    with pytest.raises(Unclear, match="the result is made"):
        replayed(torch.clone, torch.sin)
    with pytest.raises(Unclear, match="a launch is given"):
        replayed(lambda x: x + 1, torch.clone)
    with pytest.raises(Unclear, match="no launches"):
        Replay(Case("", (drawn(2),)), secret()).again(lambda now: {}, drawn(2))
    many = Replay(Case("", (drawn(2),)), secret())
    for _ in range(5000):  # so many that none is kept: a part of them would prove nothing
        many.note(launch(x=drawn(2)), {"o": drawn(2)})
    with pytest.raises(Unclear, match="4096 launches"):
        many.again(lambda now: {"o": drawn(2)}, drawn(2))


def test_inputs_differ_between_submissions_and_secrets_and_are_repeatable():
    def drawn(secret: bytes, content: str):
        return draw_cases(find("0.1"), secret, content)[1].args[0].tolist()

    assert drawn(b"s", "a") == drawn(b"s", "a")
    assert len({str(drawn(s, c)) for s in (b"s", b"t") for c in "ab"}) == 4
