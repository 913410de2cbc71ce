"""Rung 8: what stock Triton does not do on Hopper, written by hand in Gluon.

Two ideas of FlashAttention-3 (Shah et al. 2024, arXiv:2407.08608), one of FlashAttention-4 and a
common one:

* *Warp specialisation* (section 3.1): one warp does nothing but start the copies of Q, K and V
  into shared memory; groups of four warps compute, 64 query rows each. Barriers in shared memory
  say "this tile is full" and "this tile may be overwritten". All groups read the same tile of K and
  V, and while one takes exponentials, another has the tensor cores (nobody orders them to).
* *Overlap inside a group* (section 3.2): the scores of this key tile and P V of the tile before
  are started together; the group waits for the scores alone, and takes their exponentials while
  P V still runs on the tensor cores. It holds S and P at once, so it needs registers: at head_dim
  128 three groups have them for tiles of 64 keys; at 64 longer tiles without it are faster.
* *A maximum may be too small* (FlashAttention-4, 2026, arXiv:2603.05451, conditional rescaling). m
  need not be the maximum, only near it: p = 2^(s - m) and l count from the same m, and O / l comes
  out the same. While no score lies more than SLACK above m, m stays and nothing is rescaled. Each
  warp asks for itself: to agree with the other three costs as much as it saves.
* *A program may stay* (a persistent kernel): one program an SM works through a list of query
  tiles. While its groups end one tile, the copies for the next are under way.

Who waits for whom (one tile of K; V likewise; a full and an empty barrier for each slot):

    producer    wait K empty --> copy K_i ................ wait K empty --> copy K_(i+1) ...
                     ^               | the copy engine arrives    ^
                     |               v                            |
                     |           K is full                        | all groups have arrived
                     |               |                            |
    group 0          |   wait K full --> S = Q K_i, wait for S, arrive --> exponentials, P V ...
    group 1          |   wait K full --> (tensor cores busy) S = Q K_i, wait for S, arrive --> ...

Barriers know no tiles: they count. A tile's number, for slot and phase, goes on from one tile of
queries to the next (`walked`). Q has a slot and two barriers a group too, in a list two slots; O
leaves through the room of its Q, which is empty when the copy engine has read it.

A head_dim of 96 is no power of two, and Gluon's tensors are. In shared memory its rows have room
for 128 (the copy fills it up with zeros), and products are made of its PARTS, columns 0 to 63 and
64 to 95: two products for S, and O in two accumulators, so nothing is multiplied by zeros. At
head_dim 256 O takes half of the registers, so there are 64 keys a tile.

Needs sm_90 and Triton 3.6 to 3.9 (Gluon is Triton's lower level: the same language, but layouts,
shared memory, copies and barriers are the programmer's). Keys are walked from the last tile to the
first, so that the masked tiles come first and the long loop has no mask.

Longer than 400 lines because it is one kernel: whoever waits at a barrier must see who arrives.
"""

from __future__ import annotations

import functools

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.language.nvidia.hopper.tma import store_wait
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from course_lib.kernels.ladder import positive
from course_lib.kernels.launch import cdiv, launch, likeness, multiprocessors, power_of_2, with_base
from course_lib.kernels.scores import LN_2, LOG2_E

try:  # what they are called from Triton 3.8 on
    from triton.experimental.gluon.language.nvidia.hopper.tma import async_load, async_store
except ImportError:
    from triton.experimental.gluon.language.nvidia.hopper.tma import (
        async_copy_global_to_shared as async_load,
    )
    from triton.experimental.gluon.language.nvidia.hopper.tma import (
        async_copy_shared_to_global as async_store,
    )

ROWS = gl.constexpr(64)  # query rows of one group of four warps
# Which thread holds which of four parts of a row's sum: just those that hold the row's scores.
# Column c of a product of 64 rows lies in lane 4 * (row % 8) + c % 8 // 2, row 8 more in the same.
IN_FOUR = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[[8, 0]],
        lane_bases=[[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]],
        warp_bases=[[16, 0], [32, 0]],
        block_bases=[],
        shape=[64, 4],
    )
)
SLACK = gl.constexpr(8.0)  # p is at most 2^8, which float16 holds as exactly as 1
# from Triton 3.9 on
HAS_REINTERPRET = gl.constexpr(hasattr(gl.shared_memory_descriptor, "reinterpret"))
L2_SHARE = 32 * 2**20  # bytes of K and V that programs running together may touch


# fmt: off
@gluon.jit
def seen_as(memory, shape: gl.constexpr, layout: gl.constexpr):
    """Return the same shared memory under another shape and layout."""
    if HAS_REINTERPRET:
        other = memory.reinterpret(memory.dtype, shape, layout)
    else:
        other = memory._reinterpret(memory.dtype, shape, layout)
    return other


@gluon.jit
def place(head, heads, row):
    """Return where a tile begins: batch, head, row, column. Heads are counted through all batches,
    ``heads`` in each."""
    return head // heads, head % heads, row, 0


@gluon.jit
def turns(heads, tiles, STAYS: gl.constexpr, CAUSAL: gl.constexpr):
    """Return how many tiles of queries this program takes, one after another."""
    mine = 1
    if STAYS:
        items = heads * (gl.cdiv(tiles, 2) if CAUSAL else tiles)
        mine = gl.cdiv(items - gl.program_id(0), gl.num_programs(0)) * (2 if CAUSAL else 1)
    return mine


@gluon.jit
def work_item(turn, heads, tiles, TOGETHER: gl.constexpr, STAYS: gl.constexpr,
              CAUSAL: gl.constexpr):
    """Return (head, query tile) of a turn of this program: TOGETHER heads at a time, so that L2
    holds their K and V. Causal tiles differ in length. Programs that come and go take the longest
    first, so that no SM ends late; those that stay take a long and a short one in two turns (of an
    odd number of tiles one then lies behind the last row, and is next to nothing)."""
    PAIRS: gl.constexpr = STAYS and CAUSAL
    t = (turn // 2 if PAIRS else turn) * gl.num_programs(0) + gl.program_id(0)
    among = gl.cdiv(tiles, 2) if PAIRS else tiles
    first = t // (among * TOGETHER) * TOGETHER
    width = gl.minimum(TOGETHER, heads - first)
    t -= first * among
    tile = t // width
    if PAIRS:
        tile = tile if turn % 2 else 2 * among - 1 - tile
    elif CAUSAL:
        tile = tiles - 1 - tile
    return first + t % width, tile


@gluon.jit
def key_tiles(first_row, ROW_COUNT: gl.constexpr, n_q, n_k,
              BLOCK_K: gl.constexpr, CAUSAL: gl.constexpr):
    """Return how many key tiles these query rows visit: at least one, even if all is hidden."""
    end = n_k
    if CAUSAL:
        end = gl.minimum(n_k, first_row + ROW_COUNT + n_k - n_q)
    if first_row >= n_q:  # a group behind the last row
        end = 0
    return gl.maximum(gl.cdiv(end, BLOCK_K), 1)


@gluon.jit
def copy_tiles(
    q_desc, k_desc, v_desc, smem, bars, heads, in_batch, tiles, n_q, n_k,
    GROUP: gl.constexpr, GROUPS: gl.constexpr, STAGES: gl.constexpr,
    TOGETHER: gl.constexpr, STAYS: gl.constexpr, CAUSAL: gl.constexpr,
):
    """The producer: one warp that starts every copy as soon as its target is free."""
    q_smem, k_smem, v_smem = smem
    q_full, q_empty, k_full, k_empty, v_full, v_empty = bars
    BLOCK_K: gl.constexpr = k_desc.block_shape[2]
    BLOCK_Q: gl.constexpr = GROUPS * ROWS
    Q_SLOTS: gl.constexpr = 2 if STAYS else 1
    walked = 0
    for turn in range(turns(heads, tiles, STAYS, CAUSAL)):
        head, tile = work_item(turn, heads, tiles, TOGETHER, STAYS, CAUSAL)
        n = key_tiles(tile * BLOCK_Q, BLOCK_Q, n_q, n_k, BLOCK_K, CAUSAL)
        kv_head, kv_in_batch = head // GROUP, in_batch // GROUP
        for i in range(n):
            slot = (walked + i) % STAGES
            free = (((walked + i) // STAGES) & 1) ^ 1  # one that nobody has completed passes 1
            tile_at = place(kv_head, kv_in_batch, (n - 1 - i) * BLOCK_K)
            mbarrier.wait(k_empty.index(slot), free)
            mbarrier.expect(k_full.index(slot), k_desc.block_type.nbytes)
            async_load(k_desc, tile_at, k_full.index(slot), k_smem.index(slot))
            if i == 0:
                for g in gl.static_range(GROUPS):
                    room = g * Q_SLOTS + turn % Q_SLOTS
                    q_at = place(head, in_batch, tile * BLOCK_Q + g * ROWS)
                    mbarrier.wait(q_empty.index(room), ((turn // Q_SLOTS) & 1) ^ 1)
                    mbarrier.expect(q_full.index(room), q_desc.block_type.nbytes)
                    async_load(q_desc, q_at, q_full.index(room), q_smem.index(room))
            mbarrier.wait(v_empty.index(slot), free)
            mbarrier.expect(v_full.index(slot), v_desc.block_type.nbytes)
            async_load(v_desc, tile_at, v_full.index(slot), v_smem.index(slot))
        walked += n


@gluon.jit
def softmax_step(s, m, l_sum, scale, first_row, start, n_q, n_k, p_layout: gl.constexpr,
                 MASK: gl.constexpr, CAUSAL: gl.constexpr, dtype: gl.constexpr):
    """Turn scores into p under the new maximum; return (p, m, l_sum, alpha).

    l_sum has four parts a row, one for each thread that holds numbers of it (`IN_FOUR`): added up
    once, in the end. m is the row's maximum or up to SLACK less; where it stays, alpha is 1 (before
    the first key, 0).
    """
    if MASK:
        s_layout: gl.constexpr = s.type.layout
        rows = first_row + gl.arange(0, s.shape[0], gl.SliceLayout(1, s_layout))
        keys = start + gl.arange(0, s.shape[1], gl.SliceLayout(0, s_layout))
        last = rows * 0 + n_k - 1
        if CAUSAL:
            last = gl.minimum(last, rows + n_k - n_q)
        s = gl.where(keys[None, :] <= last[:, None], s, float("-inf"))
    top = gl.max(s, 1) * scale
    m_new = gl.where(top - m > SLACK, top, m)
    m_safe = m_new
    if MASK:
        m_safe = gl.where(m_new == float("-inf"), 0.0, m_new)
    alpha = gl.exp2(m - m_safe)
    p = gl.exp2(s * scale - m_safe[:, None])
    parts = gl.sum(gl.sum(gl.reshape(p, (p.shape[0], p.shape[1] // 8, 4, 2)), 3), 1)
    parts = gl.convert_layout(parts, IN_FOUR, assert_trivial=True)
    l_alpha = gl.convert_layout(alpha, gl.SliceLayout(1, IN_FOUR), assert_trivial=True)
    l_sum = l_sum * l_alpha[:, None] + parts
    return gl.convert_layout(p.to(dtype), p_layout), m_new, l_sum, alpha


@gluon.jit
def accumulator(COLUMNS: gl.constexpr):
    """Return an accumulator of zeros for so many columns of O."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, COLUMNS, 16])
    return gl.zeros((ROWS, COLUMNS), gl.float32, layout)


@gluon.jit
def start_scores(i, q_tile, k_smem, k_full, BLOCK_K: gl.constexpr, STAGES: gl.constexpr,
           PARTS: gl.constexpr):
    """Start S = Q K_i: one product for each part of the columns."""
    mbarrier.wait(k_full.index(i % STAGES), (i // STAGES) & 1)
    k_tile = k_smem.index(i % STAGES)
    s = accumulator(BLOCK_K)
    if len(PARTS) == 1:
        s = warpgroup_mma(q_tile, k_tile.permute((1, 0)), s, use_acc=False, is_async=True)
    else:
        left = k_tile.slice(0, PARTS[0], 1).permute((1, 0))
        right = k_tile.slice(PARTS[0], PARTS[1], 1).permute((1, 0))
        q_left, q_right = q_tile.slice(0, PARTS[0], 1), q_tile.slice(PARTS[0], PARTS[1], 1)
        s = warpgroup_mma(q_left, left, s, use_acc=False, is_async=True)
        s = warpgroup_mma(q_right, right, s, is_async=True)
    return s


@gluon.jit
def start_values(p, v_tile, acc, PARTS: gl.constexpr):
    """Start acc += P V."""
    if len(PARTS) == 1:
        more = (warpgroup_mma(p, v_tile, acc[0], is_async=True),)
    else:
        left, right = v_tile.slice(0, PARTS[0], 1), v_tile.slice(PARTS[0], PARTS[1], 1)
        start = warpgroup_mma(p, left, acc[0], is_async=True)
        more = start, warpgroup_mma(p, right, acc[1], is_async=True)  # type: ignore[assignment]
    return more


@gluon.jit
def finished(acc, read):
    """Wait for all products; ``read``: registers that must keep what they hold until then."""
    done = warpgroup_mma_wait(num_outstanding=0, deps=acc + read)
    return done[:len(acc)]


@gluon.constexpr_function
def times_unless_one(count):
    """Return PTX that multiplies ``count`` numbers by factors, if one factor of the warp is not 1,
    and what its operands are: results, numbers, factors.

    An `if` of Triton's is one for all four warps: to agree costs them as much as this saves. Of a
    product's numbers a thread holds two of one row, two of another, and so on: two factors.
    """
    lines = [
        "{ .reg .pred mine, any;",
        f"setp.neu.f32 mine, ${2 * count}, 0f3F800000;",
        f"setp.neu.or.f32 mine, ${2 * count + 2}, 0f3F800000, mine;",
        "vote.sync.any.pred any, mine, 0xffffffff;",
        *[f"mov.b32 ${i}, ${count + i};" for i in range(count)],
        "@!any bra DONE;",
        *[f"mul.f32 ${i}, ${count + i}, ${2 * count + i};" for i in range(count)],
        "DONE: }",
    ]
    return "\n".join(lines), ",".join(["=f"] * count + ["f"] * 2 * count)


@gluon.jit
def times(x, factor):
    """Multiply each row of x by its own factor; a warp whose factors are all 1 does nothing."""
    HELD: gl.constexpr = x.shape[0] * x.shape[1] // 128  # numbers in each of 128 threads
    CODE: gl.constexpr = times_unless_one(HELD)
    factor = gl.convert_layout(factor, gl.SliceLayout(1, x.type.layout))
    factor, x = gl.broadcast(gl.expand_dims(factor, 1), x)
    return gl.inline_asm_elementwise(
        CODE[0], CODE[1], [x, factor], dtype=gl.float32, is_pure=True, pack=HELD)


@gluon.jit
def scaled(acc, factor, PARTS: gl.constexpr):
    """Multiply each row of O by its own factor."""
    if len(PARTS) == 1:
        columns = (times(acc[0], factor),)
    else:
        columns = times(acc[0], factor), times(acc[1], factor)  # type: ignore[assignment]
    return columns


@gluon.jit
def pass_by(i, bars, STAGES: gl.constexpr):
    """Give back tile i unread: no row of this group sees it."""
    _, _, k_full, k_empty, v_full, v_empty = bars
    slot = i % STAGES
    phase = (i // STAGES) & 1
    mbarrier.wait(k_full.index(slot), phase)
    mbarrier.arrive(k_empty.index(slot))
    mbarrier.wait(v_full.index(slot), phase)
    mbarrier.arrive(v_empty.index(slot))


@gluon.jit
def tile_in_order(
    i, q_tile, smem, bars, m, l_sum, acc, scale, first_row, start, n_q, n_k,
    BLOCK_K: gl.constexpr, STAGES: gl.constexpr, MASK: gl.constexpr, CAUSAL: gl.constexpr,
    p_layout: gl.constexpr, PARTS: gl.constexpr,
):
    """S = Q K_i, then the exponentials, then acc += P V_i; other groups fill the gaps."""
    _, k_smem, v_smem = smem
    _, _, k_full, k_empty, v_full, v_empty = bars
    slot = i % STAGES
    s = start_scores(i, q_tile, k_smem, k_full, BLOCK_K, STAGES, PARTS)
    s = warpgroup_mma_wait(num_outstanding=0, deps=(s,))
    mbarrier.arrive(k_empty.index(slot))
    p, m, l_sum, alpha = softmax_step(
        s, m, l_sum, scale, first_row, start, n_q, n_k, p_layout, MASK, CAUSAL, q_tile.dtype)
    acc = scaled(acc, alpha, PARTS)
    mbarrier.wait(v_full.index(slot), (i // STAGES) & 1)
    acc = start_values(p, v_smem.index(slot), acc, PARTS)
    acc = finished(acc, (p,))
    mbarrier.arrive(v_empty.index(slot))
    return m, l_sum, acc


@gluon.jit
def tile_overlapped(
    i, q_tile, smem, bars, m, l_sum, acc, p, scale, first_row, start, n_q, n_k,
    BLOCK_K: gl.constexpr, STAGES: gl.constexpr, MASK: gl.constexpr, CAUSAL: gl.constexpr,
    PARTS: gl.constexpr,
):
    """Start S = Q K_i and acc += P V_(i-1) together; exponentiate S while the second runs."""
    _, k_smem, v_smem = smem
    _, _, k_full, k_empty, v_full, v_empty = bars
    slot = i % STAGES
    before = (i - 1) % STAGES
    s = start_scores(i, q_tile, k_smem, k_full, BLOCK_K, STAGES, PARTS)
    acc = start_values(p, v_smem.index(before), acc, PARTS)
    s = warpgroup_mma_wait(num_outstanding=len(PARTS), deps=(s,))
    mbarrier.arrive(k_empty.index(slot))
    p_layout: gl.constexpr = p.type.layout
    p_new, m, l_sum, alpha = softmax_step(
        s, m, l_sum, scale, first_row, start, n_q, n_k, p_layout, MASK, CAUSAL, p.dtype)
    # waiting for V_i here, not where it is used, also keeps the assembler from moving the next
    # line up: it starts a new basic block, and the exponentials stay in this one
    mbarrier.wait(v_full.index(slot), (i // STAGES) & 1)
    acc = finished(acc, (p, p_new))
    mbarrier.arrive(v_empty.index(before))
    return m, l_sum, scaled(acc, alpha, PARTS), p_new


@gluon.jit
def walk(
    q_tile, room, turn, smem, bars, walked, n, first_row, n_q, n_k, scale,
    group: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr, STAYS: gl.constexpr,
    OVERLAP: gl.constexpr, CAUSAL: gl.constexpr, PARTS: gl.constexpr,
):
    """Walk over the keys of 64 rows, last tile first; return (m, l_sum, acc), O not yet divided."""
    _, k_smem, v_smem = smem
    q_full, q_empty, k_full, k_empty, v_full, v_empty = bars
    dtype: gl.constexpr = q_tile.dtype
    Q_SLOTS: gl.constexpr = 2 if STAYS else 1
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_K, 16])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, PARTS[0], 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(0, o_layout, 2)
    own = key_tiles(first_row, ROWS, n_q, n_k, BLOCK_K, CAUSAL)
    whole = n_k  # key tiles from here on hide a key from some row of this group
    if CAUSAL:
        whole = gl.minimum(n_k, gl.maximum(first_row + n_k - n_q + 1, 0))
    # at least one tile has the mask: where that loop was left out, the assembler of Triton 3.6 left
    # out the address of Q as well, that the next loop needs
    whole = gl.minimum(whole // BLOCK_K, own - 1)
    for i in range(n - own):
        pass_by(walked + i, bars, STAGES)

    m = gl.full((ROWS,), float("-inf"), gl.float32, gl.SliceLayout(1, s_layout))
    l_sum = gl.zeros((ROWS, 4), gl.float32, IN_FOUR)
    acc = (accumulator(PARTS[0]),)
    if len(PARTS) == 2:
        acc = acc[0], accumulator(PARTS[1])  # type: ignore[assignment]
    mbarrier.wait(q_full.index(room), (turn // Q_SLOTS) & 1)
    if STAYS and turn > 0:  # the other slot still held the O before this
        store_wait(0)
        mbarrier.arrive(q_empty.index(group * Q_SLOTS + (turn + 1) % Q_SLOTS))
    if OVERLAP:
        first = walked + n - own
        slot = first % STAGES
        s = start_scores(first, q_tile, k_smem, k_full, BLOCK_K, STAGES, PARTS)
        s = warpgroup_mma_wait(num_outstanding=0, deps=(s,))
        mbarrier.arrive(k_empty.index(slot))
        p, m, l_sum, _ = softmax_step(s, m, l_sum, scale, first_row, (own - 1) * BLOCK_K,
                                      n_q, n_k, p_layout, True, CAUSAL, dtype)
        mbarrier.wait(v_full.index(slot), (first // STAGES) & 1)
        for i in range(n - own + 1, n - whole):
            m, l_sum, acc, p = tile_overlapped(
                walked + i, q_tile, smem, bars, m, l_sum, acc, p, scale, first_row,
                (n - 1 - i) * BLOCK_K, n_q, n_k, BLOCK_K, STAGES, True, CAUSAL, PARTS)
        for i in range(n - whole, n):
            m, l_sum, acc, p = tile_overlapped(
                walked + i, q_tile, smem, bars, m, l_sum, acc, p, scale, first_row,
                (n - 1 - i) * BLOCK_K, n_q, n_k, BLOCK_K, STAGES, False, CAUSAL, PARTS)
        slot = (walked + n - 1) % STAGES
        acc = start_values(p, v_smem.index(slot), acc, PARTS)
        acc = finished(acc, (p,))
        mbarrier.arrive(v_empty.index(slot))
    else:
        for i in range(n - own, n - whole):
            m, l_sum, acc = tile_in_order(
                walked + i, q_tile, smem, bars, m, l_sum, acc, scale, first_row,
                (n - 1 - i) * BLOCK_K, n_q, n_k, BLOCK_K, STAGES, True, CAUSAL, p_layout, PARTS)
        for i in range(n - whole, n):
            m, l_sum, acc = tile_in_order(
                walked + i, q_tile, smem, bars, m, l_sum, acc, scale, first_row,
                (n - 1 - i) * BLOCK_K, n_q, n_k, BLOCK_K, STAGES, False, CAUSAL, p_layout, PARTS)
    return m, l_sum, acc


@gluon.jit
def compute(
    group: gl.constexpr, o_desc, lse, smem, bars, heads, in_batch, tiles, n_q, n_k, scale,
    BLOCK_K: gl.constexpr, GROUPS: gl.constexpr, STAGES: gl.constexpr,
    TOGETHER: gl.constexpr, STAYS: gl.constexpr, OVERLAP: gl.constexpr, CAUSAL: gl.constexpr,
    q_layout: gl.constexpr, PARTS: gl.constexpr,
):
    """A consumer: four warps, 64 query rows of each tile, all their keys."""
    q_smem, _, _ = smem
    WIDTH: gl.constexpr = o_desc.block_shape[3]
    Q_SLOTS: gl.constexpr = 2 if STAYS else 1
    walked = 0
    for turn in range(turns(heads, tiles, STAYS, CAUSAL)):
        head, tile = work_item(turn, heads, tiles, TOGETHER, STAYS, CAUSAL)
        n = key_tiles(tile * GROUPS * ROWS, GROUPS * ROWS, n_q, n_k, BLOCK_K, CAUSAL)
        first_row = (tile * GROUPS + group) * ROWS
        room = group * Q_SLOTS + turn % Q_SLOTS
        q_tile = seen_as(q_smem.index(room), [ROWS, WIDTH], q_layout)
        m, l_sum, acc = walk(
            q_tile, room, turn, smem, bars, walked, n, first_row, n_q, n_k, scale,
            group, BLOCK_K, STAGES, STAYS, OVERLAP, CAUSAL, PARTS)
        l_all = gl.convert_layout(gl.sum(l_sum, 1), m.type.layout)
        l_safe = gl.where(l_all == 0.0, 1.0, l_all)
        rows = first_row + gl.arange(0, ROWS, m.type.layout)
        gl.store(lse + head.to(gl.int64) * n_q + rows, (m + gl.log2(l_safe)) * LN_2,
                 mask=rows < n_q)
        acc = scaled(acc, 1.0 / l_safe, PARTS)
        q_tile.slice(0, PARTS[0], 1).store(acc[0].to(q_tile.dtype))  # Q is done with: room for O
        if len(PARTS) == 2:
            q_tile.slice(PARTS[0], PARTS[1], 1).store(acc[1].to(q_tile.dtype))
        fence_async_shared()
        async_store(o_desc, place(head, in_batch, first_row), q_smem.index(room))
        walked += n
    store_wait(0)


@gluon.jit
def barriers(count: gl.constexpr, arrivals: gl.constexpr):
    """Allocate ``count`` barriers in shared memory; each completes after ``arrivals`` (one thread
    arrives for its group)."""
    bars = gl.allocate_shared_memory(gl.int64, [count, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(count):
        mbarrier.init(bars.index(i), count=arrivals)
    return bars


@gluon.jit
def specialised_kernel(
    q_desc, k_desc, v_desc, o_desc, lse, n_q, n_k, heads, in_batch, tiles, scale,
    GROUP: gl.constexpr, GROUPS: gl.constexpr, STAGES: gl.constexpr,
    TOGETHER: gl.constexpr, STAYS: gl.constexpr, OVERLAP: gl.constexpr, CAUSAL: gl.constexpr,
    q_layout: gl.constexpr, kv_layout: gl.constexpr, PARTS: gl.constexpr,
):
    """Set up shared memory and barriers, then part: two or three consumers (the first in the
    program's own warps), one producer."""
    dtype: gl.constexpr = q_desc.dtype
    BLOCK_K: gl.constexpr = k_desc.block_shape[2]
    WIDTH: gl.constexpr = k_desc.block_shape[3]
    Q_SLOTS: gl.constexpr = 2 if STAYS else 1
    q_smem = gl.allocate_shared_memory(dtype, [GROUPS * Q_SLOTS, 1, 1, ROWS, WIDTH], q_desc.layout)
    k_smem = gl.allocate_shared_memory(dtype, [STAGES, 1, 1, BLOCK_K, WIDTH], k_desc.layout)
    v_smem = gl.allocate_shared_memory(dtype, [STAGES, 1, 1, BLOCK_K, WIDTH], v_desc.layout)
    bars = (
        barriers(GROUPS * Q_SLOTS, 1), barriers(GROUPS * Q_SLOTS, 1),  # Q is full, is empty
        barriers(STAGES, 1), barriers(STAGES, GROUPS),  # K is full, is empty
        barriers(STAGES, 1), barriers(STAGES, GROUPS),  # V is full, is empty
    )
    fence_async_shared()
    copied = (q_smem, k_smem, v_smem)  # as the descriptors see them: (1, 1, rows, head_dim)
    smem = (
        q_smem,
        seen_as(k_smem, [STAGES, BLOCK_K, WIDTH], kv_layout),
        seen_as(v_smem, [STAGES, BLOCK_K, WIDTH], kv_layout),
    )
    zero: gl.constexpr = 0
    one: gl.constexpr = 1
    two: gl.constexpr = 2
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (compute, (zero, o_desc, lse, smem, bars, heads, in_batch, tiles, n_q, n_k, scale,
                           BLOCK_K, GROUPS, STAGES, TOGETHER, STAYS, OVERLAP,
                           CAUSAL, q_layout, PARTS)),
                (compute, (one, o_desc, lse, smem, bars, heads, in_batch, tiles, n_q, n_k, scale,
                           BLOCK_K, GROUPS, STAGES, TOGETHER, STAYS, OVERLAP,
                           CAUSAL, q_layout, PARTS)),
                (copy_tiles, (q_desc, k_desc, v_desc, copied, bars, heads, in_batch, tiles,
                              n_q, n_k, GROUP, GROUPS, STAGES, TOGETHER, STAYS,
                              CAUSAL)),
            ],
            worker_num_warps=[4, 1],
            worker_num_regs=[240, 24],
        )
    else:
        gl.warp_specialize(
            [
                (compute, (zero, o_desc, lse, smem, bars, heads, in_batch, tiles, n_q, n_k, scale,
                           BLOCK_K, GROUPS, STAGES, TOGETHER, STAYS, OVERLAP,
                           CAUSAL, q_layout, PARTS)),
                (compute, (one, o_desc, lse, smem, bars, heads, in_batch, tiles, n_q, n_k, scale,
                           BLOCK_K, GROUPS, STAGES, TOGETHER, STAYS, OVERLAP,
                           CAUSAL, q_layout, PARTS)),
                (compute, (two, o_desc, lse, smem, bars, heads, in_batch, tiles, n_q, n_k, scale,
                           BLOCK_K, GROUPS, STAGES, TOGETHER, STAYS, OVERLAP,
                           CAUSAL, q_layout, PARTS)),
                (copy_tiles, (q_desc, k_desc, v_desc, copied, bars, heads, in_batch, tiles,
                              n_q, n_k, GROUP, GROUPS, STAGES, TOGETHER, STAYS,
                              CAUSAL)),
            ],
            worker_num_warps=[4, 4, 1],
            worker_num_regs=[160, 160, 24],
        )
# fmt: on


@functools.cache
def swizzled(shape: tuple[int, ...], dtype: torch.dtype) -> gl.NVMMASharedLayout:
    """Return how a tile of this shape lies in shared memory, so that no two rows share banks."""
    known = {torch.float16: gl.float16, torch.bfloat16: gl.bfloat16}
    return gl.NVMMASharedLayout.get_default_for(list(shape), known[dtype])


@functools.lru_cache(maxsize=4096)
def _template(
    shape: torch.Size, stride: tuple[int, ...], dtype: torch.dtype, rows: int
) -> TensorDescriptor:
    d = shape[3]
    block = (1, 1, rows, power_of_2(d))  # 96 columns in room for 128: the copy adds zeros
    # what is there once has no next one: its stride may be any number
    steps = [step if size > 1 else d for size, step in zip(shape[:3], stride[:3], strict=True)]
    sizes = [*shape], [*steps, 1], [*block]
    return TensorDescriptor(torch.empty(0, dtype=dtype), *sizes, swizzled(block, dtype))


def described(x: torch.Tensor, rows: int) -> TensorDescriptor:
    """Describe a (B, H, N, d) tensor as tiles of ``rows`` rows of one head."""
    return with_base(_template(x.shape, x.stride(), x.dtype, rows), x)


def specialised(
    q,
    k,
    v,
    *,
    causal=False,
    scale=None,
    groups=3,
    block_k=64,
    stages=3,
    overlap=True,
    stays=False,
    like=None,
):
    """Rung 8: warp-specialised and overlapped by hand, on sm_90.

    Args:
        q: (B, H, n_q, d), strides as `fetchable` has them, half types, d 64, 96, 128 or 256.
        k: (B, H_kv, n_k, d), likewise, n_k >= 1.
        v: like k.
        causal: aligned at the end.
        scale: of the scores, above 0; default d ** -0.5.
        groups: computing groups of 64 query rows each, 2 or 3; this and what follows: defaults are
            those of head_dim 128, without lists.
        block_k: keys per tile.
        stages: K and V tiles in flight.
        overlap: let a group take exponentials while its last P V runs; else other groups' do.
        stays: one program an SM, with a list of query tiles and room for the next Q; else each
            program takes one tile.
        like: a `likeness` that decides all of these but the scale; default one that does.

    Returns:
        o (B, H, n_q, d) and lse (B, H, n_q) in float32.

    Raises:
        ValueError: if scale is not above 0.
    """
    batch, heads, n_q, d = q.shape
    scale = positive(d**-0.5 if scale is None else scale)
    n_k = k.shape[2]
    o = q.new_empty(q.shape)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)

    tiles = cdiv(n_q, 64 * groups)
    fits = max(L2_SHARE // (2 * n_k * d * q.element_size()), 1)
    together = min(1 << (fits.bit_length() - 1), 16)  # a power of two
    programs = batch * heads * tiles
    if stays:
        programs = min(batch * heads * (cdiv(tiles, 2) if causal else tiles), multiprocessors(q))
    launch(
        *(specialised_kernel, (programs,)),
        like or likeness((q, k, v), causal, groups, block_k, stages, overlap, stays),
        *(described(q, 64), described(k, block_k), described(v, block_k), described(o, 64)),
        *(lse, n_q, n_k, batch * heads, heads, tiles, scale * LOG2_E),
        GROUP=heads // k.shape[1],
        GROUPS=groups,
        STAGES=stages,
        TOGETHER=together,
        STAYS=stays,
        OVERLAP=overlap,
        CAUSAL=causal,
        q_layout=swizzled((64, power_of_2(d)), q.dtype),
        kv_layout=swizzled((block_k, power_of_2(d)), q.dtype),
        PARTS=(64, 32) if d == 96 else (d,),
        num_warps=4,
    )
    return o, lse
