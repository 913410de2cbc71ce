"""Kernels that pass in the interpreter (most of them) and do not compile for a GPU."""

import torch
import triton
import triton.language as tl

BLOCK = 16
ROWS = tl.constexpr(16)


@triton.jit
def scalar_start(x, o):
    at = tl.arange(0, 16)
    m = float("-inf")
    for _ in range(0, 4):
        m = tl.maximum(m, tl.load(x + at))
    tl.store(o + at, m)


@triton.jit
def integer_start(x, o):
    total = 0
    for _ in range(0, 4):
        total = total + 1.5
    tl.store(o, total)


@triton.jit
def growing_dtype(x, o):
    acc = tl.zeros((16,), tl.float16)
    for _ in range(0, 4):
        acc = acc + tl.load(x + tl.arange(0, 16))
    tl.store(o + tl.arange(0, 16), acc)


@triton.jit
def growing_shape(x, o):
    acc = tl.zeros((1,), tl.float32)
    for _ in range(0, 4):
        acc = acc + tl.load(x + tl.arange(0, 16))
    tl.store(o + tl.arange(0, 16), acc)


@triton.jit
def breaks(x, o):
    acc = tl.zeros((16,), tl.float32)
    for i in range(0, 4):
        acc += tl.load(x + tl.arange(0, 16))
        if i == 2:
            break
    tl.store(o + tl.arange(0, 16), acc)


@triton.jit
def prints(x, o):
    value = tl.load(x + tl.arange(0, 16))
    print(value)
    tl.store(o + tl.arange(0, 16), value)


@triton.jit
def appends(x, o):
    parts = []
    for _ in range(0, 2):
        parts.append(tl.load(x + tl.arange(0, 16)))
    tl.store(o + tl.arange(0, 16), parts[0] + parts[1])


@triton.jit
def small_dot(x, o):
    i, j = tl.arange(0, 8), tl.arange(0, 16)
    a = tl.load(x + j[:, None] * 8 + i[None, :])
    b = tl.load(x + i[:, None] * 16 + j[None, :])
    tl.store(o + j[:, None] * 16 + j[None, :], tl.dot(a, b))


@triton.jit
def tries(x, o):
    try:
        tl.store(o, 1.0)
    finally:
        pass


@triton.jit
def reads_a_global(x, o):
    at = tl.arange(0, BLOCK)
    tl.store(o + at, tl.load(x + at))


@triton.jit
def assigned_in_loop(x, o):
    for _ in range(0, 4):
        value = tl.load(x + tl.arange(0, 16))
    tl.store(o + tl.arange(0, 16), value)


@triton.jit
def calls_python(x, o):
    tl.store(o, torch.numel(x))


@triton.jit
def starts_at_a_variable(x, o):
    for start in range(0, 64, 16):
        at = tl.arange(start, start + 16)
        tl.store(o + at, tl.load(x + at))


@triton.jit
def not_a_power(x, o):
    at = tl.arange(0, 48)
    tl.store(o + at, tl.load(x + at))


@triton.jit
def picks_one(x, o):
    value = tl.load(x + tl.arange(0, 16))
    tl.store(o, value[3])


@triton.jit
def branches_on_a_tile(x, o):
    value = tl.load(x + tl.arange(0, 16))
    if value > 0:
        value = value * 2
    tl.store(o + tl.arange(0, 16), value)


@triton.jit
def broken_helper(p):
    m = 0.0
    for _ in range(0, 2):
        m += tl.load(p + tl.arange(0, 16))
    return m


@triton.jit
def calls_a_helper(x, o):
    tl.store(o + tl.arange(0, 16), broken_helper(x))


@triton.jit
def wants_too_much(x, o):
    at = tl.arange(0, 128)
    acc = tl.zeros((128, 128), tl.float32)
    for i in range(0, 4):
        a = tl.load(x + i * 16384 + at[:, None] * 128 + at[None, :])
        b = tl.load(o + i * 16384 + at[:, None] * 128 + at[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(o + at[:, None] * 128 + at[None, :], acc)


@triton.jit
def stub(x, o):
    tl.static_assert(False, "not attempted")


@triton.autotune([triton.Config({"TILE": 16}), triton.Config({"TILE": 48})], key=[])
@triton.jit
def sound(x, o, TILE: tl.constexpr):
    at = tl.arange(0, TILE)
    tl.store(o + at, tl.load(x + at) * ROWS)


@triton.jit
def no_instruction(x, o):
    at = tl.arange(0, 16)
    value = tl.inline_asm_elementwise(
        "no_such $0, $1;", "=f,f", [tl.load(x + at)], dtype=tl.float32, is_pure=True, pack=1
    )
    tl.store(o + at, value)


def launch(x, name):
    """Launch the kernel of that name on x, into a tensor like x."""
    o = torch.empty_like(x)
    if name == "scalar_start":
        scalar_start[(1,)](x, o)
    elif name == "integer_start":
        integer_start[(1,)](x, o)
    elif name == "growing_dtype":
        growing_dtype[(1,)](x, o)
    elif name == "growing_shape":
        growing_shape[(1,)](x, o)
    elif name == "breaks":
        breaks[(1,)](x, o)
    elif name == "prints":
        prints[(1,)](x, o)
    elif name == "appends":
        appends[(1,)](x, o)
    elif name == "small_dot":
        small_dot[(1,)](x, o)
    elif name == "tries":
        tries[(1,)](x, o)
    elif name == "reads_a_global":
        reads_a_global[(1,)](x, o)
    elif name == "assigned_in_loop":
        assigned_in_loop[(1,)](x, o)
    elif name == "calls_python":
        calls_python[(1,)](x, o)
    elif name == "starts_at_a_variable":
        starts_at_a_variable[(1,)](x, o)
    elif name == "not_a_power":
        not_a_power[(1,)](x, o)
    elif name == "picks_one":
        picks_one[(1,)](x, o)
    elif name == "branches_on_a_tile":
        branches_on_a_tile[(1,)](x, o)
    elif name == "calls_a_helper":
        calls_a_helper[(1,)](x, o)
    elif name == "wants_too_much":
        wants_too_much[(1,)](x, o)
    elif name == "no_instruction":
        no_instruction[(1,)](x, o)
    elif name == "stub":
        stub[(1,)](x, o)
    elif name == "sound":
        sound[(1,)](x, o)
    elif name == "raises":
        raise ValueError("before any kernel")
    return o
