"""What a kernel does once it is compiled is what it does interpreted, operation by operation."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from course_lib.accounting.kernel_ledger import KernelLedger
from course_lib.child.compile_check import compile_for
from course_lib.child.run_compiled import Machine
from course_lib.child.ttir import NotUnderstood


@triton.jit
def first(x, y):
    return tl.where(x > y, x, y)


@triton.jit
def pair(a, i, b, j):
    takes = (a > b) | ((a == b) & (i < j))
    return tl.where(takes, a, b), tl.where(takes, i, j)


@triton.jit
def most(x, y):
    if x > y:  # noqa: SIM108
        z = x
    else:
        z = y
    return z


@triton.jit
def early(out, n):
    if n > 5:
        return
    tl.store(out + 15, 3.0)


@triton.jit(noinline=True)
def apart(x, y):
    return x * y + 1


@triton.jit
def fractions(x, out, n, huge, N: tl.constexpr):
    at = tl.arange(0, N)
    s = tl.load(x + at)
    h = s.to(tl.float16)
    tl.store(out + 0 * N + at, tl.exp(s) + tl.exp2(s) + tl.log(tl.abs(s)) + tl.log2(tl.abs(s)))
    tl.store(out + 1 * N + at, tl.sin(s) + tl.cos(s) + tl.sqrt(s * s) + tl.rsqrt(s * s + 1))
    tl.store(out + 2 * N + at, tl.floor(s) + tl.ceil(s) + tl.erf(s) + tl.fma(s, s, s))
    tl.store(out + 3 * N + at, tl.cumsum(s, 0) + tl.cumsum(s, 0, reverse=True))
    tl.store(out + 4 * N + at, tl.cumprod(s, 0) + tl.associative_scan(s, 0, first))
    tl.store(out + 5 * N + at, tl.sort(s))
    tl.store(out + 6 * N + at, tl.flip(s, 0) + tl.softmax(s) + tl.sigmoid(s))
    tl.store(out + 7 * N + at, tl.clamp(s, -0.5, 0.5) + tl.maximum(s, 0.1) + tl.minimum(s, 0.2))
    tl.store(out + 8 * N + at, h + h * h)
    tl.store(out + 9 * N + at, tl.rand(3, at) + tl.randn(4, at))
    tl.store(out + 10 * N + at, tl.gather(s, N - 1 - at, 0))
    tl.store(out + 11 * N + at, tl.load(x + at, mask=at < n, other=7.0) / (s + 3))
    low, high = tl.split(tl.reshape(s, (N // 2, 2)))
    tl.store(out + 12 * N + at, tl.interleave(high, low) + tl.ravel(tl.join(low, high)))
    best, where = tl.reduce((s, at), 0, pair)
    tl.store(out + 13 * N + at, best + where + tl.argmax(s, 0) + tl.argmin(s, 0) + tl.max(s, 0))
    tl.store(out + 14 * N + at, tl.sum(s, 0) + tl.reduce(s, 0, first) + tl.min(s, 0) + s)
    tile = tl.reshape(tl.load(x + tl.arange(0, N * N)), (N, N))
    tl.store(out + 15 * N + at, tl.sum(tl.dot(tile, tl.trans(tile), input_precision="ieee"), 1))
    tl.store(out + 16 * N + at, tl.sum(tl.dot(tile.to(tl.float16), tile.to(tl.float16)), 0))
    i = 0
    total = 0.0
    while i < n:
        total += tl.load(x + i)
        i += 1
    if total > 0:
        total = total * 2
    tl.store(out + 17 * N + at, total)
    tl.store(out + 18 * N + at, s + apart(total, total))
    tl.atomic_add(out + 19 * N + at // 4, s)
    tl.atomic_max(out + 20 * N + at // 4, s)
    tl.store(out + 21 * N + at, tl.reduce(s, 0, most) + tl.div_rn(s, s + 4) + tl.sqrt_rn(s * s))


@triton.jit
def integers(x, out, n, N: tl.constexpr):
    at = tl.arange(0, N)
    i = tl.load(x + at)
    tl.store(out + 0 * N + at, i // 3 + i % 5 - (i * 65537) // 7)
    tl.store(out + 1 * N + at, (i << 3) ^ (i >> 2) | (i & 12))
    tl.store(out + 2 * N + at, ~i + tl.abs(i) - i * i)
    tl.store(out + 3 * N + at, tl.cumsum(i, 0) + tl.max(i, 0) - tl.min(i, 0))
    u = i.to(tl.uint32)
    tl.store(out + 4 * N + at, (tl.umulhi(u, u) + u // 3).to(tl.int32))
    tl.store(out + 5 * N + at, i.to(tl.int8).to(tl.int32) + i.to(tl.uint8).to(tl.int32))
    tl.store(out + 6 * N + at, tl.histogram(at % 4, N))
    tl.store(out + 7 * N + at, (i > 3).to(tl.int32) + (i.to(tl.uint32) > 3).to(tl.int32))
    tl.store(out + 8 * N + at, tl.sum((i > 3).to(tl.int32), 0) + tl.xor_sum(i, 0))
    tl.store(out + 9 * N + at, (i.to(tl.float32) * 1.5).to(tl.int32))
    tl.store(out + 10 * N + at, i.to(tl.float32).to(tl.int32, bitcast=True))
    tl.store(out + 11 * N + at, tl.sort(i, descending=True) + tl.randint(1, at).to(tl.int32))
    tl.atomic_add(out + 12 * N + at // 2, i)
    tl.atomic_xor(out + 13 * N + at // 2, i)
    tl.atomic_min(out + 14 * N + at // 2, i)
    tl.atomic_cas(out + 15 * N + at, at, i)
    tl.atomic_xchg(out + 16 * N + at, i)
    for j in tl.static_range(3):
        tl.store(out + (17 + j) * N + at, i * j)
    for j in range(n, 0, -2):
        tl.store(out + 20 * N + j, j)
    tl.store(out + 21 * N + at, tl.program_id(0) + tl.num_programs(0) + tl.cdiv(n, 4))


def launched(kernel, args, name=None, **more):
    """Return a launch as it is kept, after it was interpreted."""
    before = [x.clone() if isinstance(x, torch.Tensor) else x for x in args]
    with KernelLedger():
        kernel[(1,)](*args, **more)
    names = kernel.arg_names
    written = {n: x for n, x in zip(names, args, strict=False) if isinstance(x, torch.Tensor)}
    given = dict(zip(names, before, strict=False)) | more
    return {"name": kernel.__name__, "grid": [1], "args": given, "options": {}, "written": written}


def both_ways(kernel, args, **more):
    launch = launched(kernel, [x.clone() if hasattr(x, "clone") else x for x in args], **more)
    return compile_for(start(kernel), *args, launches=[launch], **more)


def start(kernel):
    return {
        fractions: start_fractions,
        integers: start_integers,
        early: start_early,
        faces: start_faces,
    }[kernel]


def start_fractions(*args, N):
    fractions[(1,)](*args, N=N)


def start_integers(*args, N):
    integers[(1,)](*args, N=N)


def start_early(*args):
    early[(1,)](*args)


def start_faces(*args):
    faces[(1,)](*args)


@triton.jit
def faces(x, one):
    if one == 1:
        tl.store(x, 1.0)
    if ("%s" % one) != "1":  # noqa: UP031
        tl.store(x + 1, 1.0)


def test_operations_on_fractions():
    torch.manual_seed(0)
    x = torch.randn(16 * 16)
    report = both_ways(fractions, (x, torch.zeros(22 * 16), 9, 1e20), N=16)
    assert report.ok, report.message


def test_operations_on_integers():
    torch.manual_seed(0)
    x = torch.randint(-1000, 1000, (16,), dtype=torch.int32)
    report = both_ways(integers, (x, torch.zeros(22 * 16, dtype=torch.int32), 9), N=16)
    assert report.ok, report.message


@pytest.mark.parametrize("n", [3, 9])
def test_a_return_before_the_end(n):
    report = both_ways(early, (torch.zeros(16), n))
    assert report.ok, report.message


def test_a_kernel_with_two_faces_is_told_its_line():
    report = both_ways(faces, (torch.zeros(2), 1))
    assert report.kind == "student"
    assert "in `x` 1 of 2 differ, the first at (1,) is 1 here and 0 there" in report.message
    assert "leaves its line `tl.store(x + 1, 1.0)` out" in report.message


def test_what_is_not_known_is_refused():
    with pytest.raises(NotUnderstood, match=r"an\.operation"):
        Machine("module {\n tt.func public @k() {\n %0 = an.operation : i32\n tt.return\n }\n}")
