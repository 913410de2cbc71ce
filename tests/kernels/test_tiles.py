"""The table of tiles, asked of the compiler for every GPU it names: nothing spills, all fits."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch
import triton
from drawn import swept

from course_lib.accounting.measurements import load_measurements
from course_lib.child.compile_check import SHARED_KIB
from course_lib.child.extract import extract
from course_lib.child.process import run
from course_lib.child.xray import XRay, xray_launch
from course_lib.kernels.attention_forward import forward_kernel
from course_lib.kernels.backward_kernels import dk_dv_kernel, dq_kernel
from course_lib.kernels.decode import (
    MOST_SORTED,
    merge_kernel,
    merge_warps,
    split_kernel,
    starts_early,
)
from course_lib.kernels.tiles import (
    BY_HAND,
    CAUSAL_LISTS,
    LISTS,
    Tiles,
    backward_tiles_for,
    by_hand_for,
    decode_tiles_for,
    tiles_for,
)

# (sm, head_dim) -> most bytes a thread of (dK and dV, dQ) may spill: on an H100 measured to be
# faster than any choice that does not (96, 288); on a T4 all spill, this choice least (904, 312)
SPILLS = {(90, 128): (128, 0), (90, 256): (320, 32), (75, 256): (1024, 384)}
# what a plain call leaves out, and the types of what a call may ask for
BENT = {"softcap": "fp32", "sinks": "*fp32", "slopes": "*fp32", "cu_q": "*i32", "cu_k": "*i32"}
PAGED = {"lengths": "*i32", "table": "*i32", "table_row": "i32", "k_page": "i32", "v_page": "i32"}
SIZES = {"heads", "kv_heads", "n_q", "n_k", "window"}


def compiled(
    kernel,
    tiles: Tiles,
    sm: int,
    d: int,
    causal: bool,
    dtype: str = "fp16",
    walked: str = "",
    asked: tuple[str, ...] = (),
) -> XRay:
    """Compile one of the course's kernels as it is launched on contiguous tensors.

    ``walked``: what it walks over by descriptors, as "q do"; ``asked``: names in BENT and PAGED.
    """
    names = kernel.fn.__code__.co_varnames[: kernel.fn.__code__.co_argcount]
    constants = {"GROUP": 1, "HEAD_DIM": d, "BLOCK_D": max(16, 1 << (d - 1).bit_length())}
    constants |= {"CAUSAL": causal, "WINDOWED": False}
    constants |= {"BLOCK_Q": tiles.block_q, "BLOCK_K": tiles.block_k}
    constants |= {name: 1 for name in names if name.endswith("_col")}
    constants |= {name: None for name in {**BENT, **PAGED} if name not in asked}
    constants |= {"PAGE": 16 if "table" in asked else 0}
    constants = {name: value for name, value in constants.items() if name in names}
    if "DESCRIBED" in names:
        constants["DESCRIBED"] = bool(walked)
    rows = tiles.block_q if "q" in walked else tiles.block_k
    signature = {}
    for name in names:
        if name in constants:
            continue
        if name in walked.split():
            signature[name] = f"tensordesc<{dtype}[1, {rows}, {d}]>"
        elif name in asked:
            signature[name] = (BENT | PAGED)[name]
        elif name in {"lse", "lse_2", "delta"}:
            signature[name] = "*fp32"
        elif name in SIZES:
            signature[name] = "i32"
        elif name.endswith(("_batch", "_head", "_row")):
            signature[name] = "i32:16"
        else:
            signature[name] = "fp32" if name.startswith("scale") else f"*{dtype}"
    return compile_for(kernel, sm, signature, constants, tiles.num_warps, tiles.num_stages)


def compile_for(
    kernel, sm: int, signature: dict, constants: dict, num_warps: int, num_stages: int = 1
) -> XRay:
    job = {"signature": signature, "constants": constants, "name": kernel.fn.__name__}
    job |= {"options": {"num_warps": num_warps, "num_stages": num_stages}, "archs": [sm]}
    task = "course_lib.child.xray:_compile_task"
    result = run(extract(kernel), task, job, mode="compile", timeout=200)
    assert result.ok, result.failure
    return XRay(target=f"sm_{sm}", **result.value[0][0])


def assert_good(ray: XRay, sm: int, dtype: str = "fp16") -> None:
    assert ray.shared_bytes <= SHARED_KIB[sm] * 1024
    assert ray.stack_bytes == 0
    assert ray.instructions["spills"] == 0
    if sm >= 80 and dtype == "fp16":
        assert ray.instructions["tensor_core"] > 0


def example(d: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.empty(d, dtype=dtype)


def but_for(few: set[int], every: Iterable[int]) -> list[object]:
    """Return parameters: those of ``few``, the others marked slow."""
    return [pytest.param(n, marks=[] if n in few else [pytest.mark.slow]) for n in every]


TABLES = {"come and go": BY_HAND, "lists": LISTS, "causal lists": CAUSAL_LISTS}


@pytest.mark.parametrize("table", swept(TABLES, ["lists"]))
@pytest.mark.parametrize("d", but_for({128}, BY_HAND))
def test_rung_8_as_it_is_tuned(d, table):
    """Three groups, or two with more in flight, hardly fit the registers."""
    from course_lib.kernels.attention_forward import gluon_works

    if not gluon_works():
        pytest.skip("Gluon as rung 8 needs it comes with Triton 3.6")
    from course_lib.kernels.gluon_forward import specialised

    q = torch.empty(1, 1, 512, d, dtype=torch.bfloat16)
    if d not in TABLES[table]:
        pytest.skip("no room for a second tile of Q")
    (ray,) = xray_launch(specialised, q, q, q, target="H100", causal=True, **TABLES[table][d])
    assert ray.shared_bytes <= SHARED_KIB[90] * 1024
    # numbers that a group reads once a tile of queries; 3.9 spills more of them (24 and 112 bytes
    # with lists at 64 and 96): what that costs was not measured
    assert ray.stack_bytes <= (112 if triton.__version__.startswith("3.9.") else 16)
    assert ray.instructions["tensor_core"] > 0


def test_programs_have_lists_where_that_was_faster():
    """In most shapes of the record the choice was the faster one, and nowhere far from it."""
    times: dict[tuple[int, int, bool], dict[str, float]] = {}
    for row in load_measurements("h100_short_keys")["rows"]:
        shape = row["d"], row["n"], row["causal"]
        times.setdefault(shape, {})[row["way"]] = row["median_us"]
    lost = []
    for (d, n, causal), us in times.items():
        q = torch.empty(1).expand(16384 // n, 2048 // d, n, d)
        chosen = "8, lists" if "stays" in by_hand_for(q, q, causal, sms=132) else "8, a tile each"
        lost.append(us[chosen] / min(us["8, lists"], us["8, a tile each"]) - 1)
    assert max(lost) < 0.06
    assert sum(one == 0 for one in lost) > 0.9 * len(lost)


@pytest.mark.parametrize(("d", "most"), [pytest.param(64, 0, marks=pytest.mark.slow), (128, 120)])
def test_the_backward_by_hand(d, most):
    """At head_dim 128 dK and dV fill half of the registers, and a few numbers of the walk spill."""
    from course_lib.kernels.attention_forward import gluon_works

    if not gluon_works():
        pytest.skip("Gluon as the kernel needs it comes with Triton 3.6")
    from course_lib.kernels.gluon_backward import gradients

    q = torch.empty(1, 1, 512, d, dtype=torch.bfloat16)
    rows, dq_sum = torch.empty(1, 512), torch.empty(1, 512, d)
    given = (q, q, q, q, rows, rows, dq_sum, q, q, q)
    walk, last = xray_launch(gradients, *given, target="H100", causal=True, scale=1.0)
    assert walk.shared_bytes <= SHARED_KIB[90] * 1024
    assert walk.stack_bytes <= most
    assert walk.instructions["tensor_core"] > 0
    assert last.stack_bytes == 0


@pytest.mark.parametrize("sm", swept([80, 90], [90]))
def test_the_forward_kernel_at_head_dim_128(sm):
    assert_good(compiled(forward_kernel, tiles_for(example(128), sm=sm), sm, 128, False), sm)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 96, 128, 256])
@pytest.mark.parametrize("sm", [75, 80, 89, 90, 100, 120])
def test_no_entry_of_the_forward_table_spills(sm, d, causal):
    tiles = tiles_for(example(d), causal=causal, sm=sm)
    assert_good(compiled(forward_kernel, tiles, sm, d, causal), sm)


@pytest.mark.slow
@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize("sm", [75, 80, 89, 90, 100, 120])
def test_no_entry_of_the_backward_table_spills(sm, d):
    for_keys, for_queries = backward_tiles_for(example(d), sm=sm)
    jobs = (dk_dv_kernel, for_keys), (dq_kernel, for_queries)
    for (kernel, tiles), most in zip(jobs, SPILLS.get((sm, d), (0, 0)), strict=True):
        ray = compiled(kernel, tiles, sm, d, True)
        if most:
            assert 0 < ray.stack_bytes <= most
            assert ray.shared_bytes <= SHARED_KIB[sm] * 1024
        else:
            assert_good(ray, sm)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
def test_the_backward_by_descriptors_needs_fewer_registers(causal):
    for_keys, for_queries = backward_tiles_for(example(128), sm=90)
    dk_dv = compiled(dk_dv_kernel, for_keys, 90, 128, causal, walked="q do")
    plain = compiled(dk_dv_kernel, for_keys, 90, 128, causal)
    assert dk_dv.instructions["spills"] < plain.instructions["spills"]
    dq = compiled(dq_kernel, for_queries, 90, 128, causal, walked="k v")
    assert_good(dq, 90)
    assert dq.registers < compiled(dq_kernel, for_queries, 90, 128, causal).registers


@pytest.mark.slow
@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize("sm", [75, 80, 90])
def test_float32_fits_too(sm, d):
    tiles = tiles_for(example(d, torch.float32), sm=sm)
    assert_good(compiled(forward_kernel, tiles, sm, d, False, "fp32"), sm, "fp32")


@pytest.mark.parametrize("sm", but_for({90}, [80, 90]))
def test_all_that_may_be_asked_of_the_forward_kernel_compiles(sm):
    tiles = tiles_for(example(64), sm=sm)
    assert_good(compiled(forward_kernel, tiles, sm, 64, True, asked=tuple(BENT)), sm)


def compiled_split(sm: int, d: int, dtype: str, page: int, rows: int) -> XRay:
    """Compile the decoding kernel as it is launched for a ragged batch."""
    constants = {"GROUP": rows, "RAGGED": True, "BATCH": MOST_SORTED, "PAGE": page}
    constants |= {"HEAD_DIM": d, "BLOCK_D": d}
    like = example(d, {"fp16": torch.float16, "fp32": torch.float32}[dtype])
    tiles = decode_tiles_for(like, rows, sm=sm)
    constants |= {"ROWS": tiles.block_q, "BLOCK_K": tiles.block_k, "EARLY": starts_early(sm)}
    constants |= {} if page else {"table": None, "table_batch": 0}
    types = {"q": f"*{dtype}", "k": f"*{dtype}", "v": f"*{dtype}", "o": "*fp32", "lse": "*fp32"}
    types |= {"lengths": "*i32", "table": "*i32", "table_batch": "i32", "scale": "fp32"}
    types |= {"kv_heads": "i32", "n_q": "i32", "n_max": "i32"}
    names = split_kernel.fn.__code__.co_varnames[: split_kernel.fn.__code__.co_argcount]
    signature = {n: types.get(n, "i32:16") for n in names if n not in constants}
    return compile_for(split_kernel, sm, signature, constants, tiles.num_warps, tiles.num_stages)


@pytest.mark.parametrize("sm", swept([80, 90], [80]))
def test_a_page_of_any_size_compiles(sm):
    assert_good(compiled_split(sm, 128, "fp16", 3, 16), sm)


def test_decoding_fits_a_t4():
    assert_good(compiled_split(75, 256, "fp16", 64, 16), 75)


@pytest.mark.slow
@pytest.mark.parametrize("page", [0, 64])
@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize("sm", [75, 80, 89, 90, 100, 120])
def test_decoding_never_spills(sm, d, dtype, page):
    assert_good(compiled_split(sm, d, dtype, page, 16), sm, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize("sm", [75, 80, 89, 90, 100, 120])
def test_decoding_with_the_most_rows_fits_and_spills_little(sm, d, dtype):
    ray = compiled_split(sm, d, dtype, 64, 32 if (sm, d) == (75, 256) else 64)
    assert ray.shared_bytes <= SHARED_KIB[sm] * 1024
    assert ray.stack_bytes <= 128


@pytest.mark.slow
@pytest.mark.parametrize("splits", [16, 128])
@pytest.mark.parametrize("d", [64, 256])
@pytest.mark.parametrize("sm", [75, 90])
def test_merging_never_spills(sm, d, splits):
    constants = {"HEAD_DIM": d, "BLOCK_D": d, "SPLITS": splits, "EARLY": starts_early(sm)}
    signature = {"parts": "*fp32", "part_lse": "*fp32", "o": "*fp16", "lse": "*fp32"}
    signature |= {"n_splits": "i32", "rows": "i32"}
    ray = compile_for(merge_kernel, sm, signature, constants, merge_warps(splits, d))
    assert ray.stack_bytes == 0
