"""The examiner: right kernels pass in every honest style, wrong ones fail as in a notebook."""

from __future__ import annotations

import pytest
import torch
from grading.helpers import ROOT, code

from course_lib.grading.classroom.examiner import compiles, draw_cases, examine
from course_lib.grading.classroom.origins import Origins
from course_lib.grading.report import Verdict
from course_lib.grading.sandbox.workshop import Workshop
from course_lib.grading.specs import find


@pytest.fixture(scope="module")
def workshop():
    with Workshop() as workshop:
        yield workshop


def examined(workshop, name, program, cases=slice(None)):
    exercise = find(name)
    return examine(workshop, exercise, program, draw_cases(exercise, b"secret", "x")[cases])


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


@pytest.mark.parametrize("style", [DESCRIPTORS, HOST_PREPARES, MADE_IN_A_FUNCTION])
def test_right_kernels_pass_in_other_styles(workshop, style):
    result = examined(workshop, "7.1", HEAD + style)
    assert result.report.passed, result.report.text()
    assert result.launches


# Wrong --------------------------------------------------------------------------------------------


SAYS = "# Expected: misconception: "
WRONG = [
    pytest.param(text, text.splitlines()[1].removeprefix(SAYS), id=file.stem)
    for file in sorted((ROOT / "tests" / "submissions" / "7.4" / "wrong").glob("*.py"))
    if SAYS in (text := file.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(("source", "name"), WRONG[::6])
def test_a_mistake_is_called_as_in_a_notebook(workshop, source, name):
    """The corpus says the name for a notebook; here the sandbox has to find the same."""
    result = examined(workshop, "7.4", source)
    assert result.report.verdict is Verdict.INCORRECT
    assert result.report.misconception == name, result.report.text()


def test_what_leaves_its_tensors_is_named_and_ends_there(workshop):
    source = code(5).replace("mask=mask", "mask=None")
    result = examined(workshop, "5.2", source)
    assert result.report.failed_property == "stays inside its tensors", result.report.text()


def test_a_kernel_that_does_not_compile_is_right_here_and_not_on_a_gpu(workshop):
    old = 'm = tl.full((BLOCK_Q,), float("-inf"), tl.float32)'
    source = code(7)
    assert old in source
    result = examined(workshop, "7.2", source.replace(old, 'm = float("-inf")'), slice(-1, None))
    assert result.report.passed, result.report.text()
    report = compiles(workshop, find("7.2"), result.launches)
    assert report.verdict is Verdict.NOT_ON_A_GPU
    assert "loop_kernel" in report.text()
    fine = examined(workshop, "7.2", source, slice(-1, None))
    assert compiles(workshop, find("7.2"), fine.launches) is None


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
        "float64": q.double(),
    }
    for name, tensor in honest.items():
        assert Origins([q, k]).stranger({"x": tensor}) is None, name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_answers_computed_elsewhere_are_strangers(dtype):
    q, k, v = (drawn(1, 1, 40, 16, seed=i, dtype=dtype) for i in range(3))
    answer = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    for x in (answer, answer.float(), answer.mT, -2 * answer, answer.float().view(torch.int32)):
        bits = {"x": x if x.is_floating_point() else x.repeat(1, 1, 2, 1)}
        assert Origins([q, k, v]).stranger(bits) == "x"
    origins = Origins([q, k, v])
    assert not origins.from_a_kernel(answer)
    origins.note_written([answer.clone()])
    assert origins.from_a_kernel((answer, answer.sum(-1)))
    assert origins.stranger({"x": answer}) is None
