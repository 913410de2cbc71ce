"""The GPUs the course talks about: nominal (vendor) figures for dense arithmetic, as data.

Sources: NVIDIA's data sheets and architecture white papers of T4 (Turing), A100 (Ampere), L4 (Ada),
H100 and H200 (Hopper) and B200 (Blackwell). Nominal means what the vendor promises: on an H100 SXM
the course measured 3031 GB/s for a copy (3350 nominal) and 791 TFLOP/s for a bf16 matrix product of
size 8192 (989 nominal): record h100_ceilings. Bandwidths and FLOPs are powers of
ten, capacities powers of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

LAUNCH_S = 5e-6
"""Seconds per kernel launch: a rough, nominal floor. Eager PyTorch adds host work of its own: the
course measured 75.4 us for the four kernels of naive attention at N = 64 on an H100, 19 us each
(record h100_regimes)."""


@dataclass(frozen=True)
class GPU:
    """One GPU, nominal figures.

    Attributes:
        name: as in `GPUS`.
        sm: compute capability times ten (80 for an A100).
        hbm_gb_per_s: bandwidth of the device memory, GB/s (GDDR6 on T4 and L4).
        tflops_half: dense fp16/bf16 tensor-core TFLOP/s (T4: fp16 only).
        sms: streaming multiprocessors.
        l2_mb: L2 cache, MB as the vendor rounds it.
        shared_kib_per_block: most shared memory that one thread block can ask for, KiB.
        note: what else to know.
    """

    name: str
    sm: int
    hbm_gb_per_s: float
    tflops_half: float
    sms: int
    l2_mb: int
    shared_kib_per_block: int
    note: str = ""

    @property
    def ridge(self) -> float:
        """FLOP/byte above which arithmetic, not HBM traffic, limits a kernel (the roofline)."""
        return self.tflops_half * 1e12 / (self.hbm_gb_per_s * 1e9)

    @property
    def shared_bytes(self) -> int:
        """Most shared memory per block in bytes."""
        return self.shared_kib_per_block * 1024


_T4 = "no bf16; Triton >= 3.3 emits no tensor-core instructions here: tl.dot runs at fp32 speed"
_ALL = (
    GPU("T4", 75, 320, 65, 40, 4, 64, _T4),
    GPU("L4", 89, 300, 121, 58, 48, 99),
    GPU("A100-40", 80, 1555, 312, 108, 40, 163),
    GPU("A100-80", 80, 2039, 312, 108, 40, 163),
    GPU("H100", 90, 3350, 989, 132, 50, 227, "SXM; measured: copy 3031 GB/s, GEMM 791 TFLOP/s"),
    GPU("H200", 90, 4800, 989, 132, 50, 227),
    GPU("B200", 100, 8000, 2250, 148, 126, 227),
)

GPUS = MappingProxyType({g.name: g for g in _ALL})
"""Name -> `GPU`."""

_ALIASES = {"A100": "A100-80"}


def gpu(name: str) -> GPU:
    """Return the GPU called ``name`` (case does not matter; ``"A100"`` is the 80 GB one).

    Raises:
        ValueError: for a name that is not in `GPUS`; the message lists them.
    """
    wanted = str(name).upper()
    wanted = _ALIASES.get(wanted, wanted)
    if wanted not in GPUS:
        raise ValueError(f"gpu must be one of {', '.join(GPUS)}; got {name!r}.")
    return GPUS[wanted]


@dataclass(frozen=True)
class MemoryLevel:
    """One level of a GPU's memory: how much there is in all and how fast it is.

    Attributes:
        name: registers, shared memory, L2 or HBM.
        n_bytes: capacity over the whole chip, bytes.
        gb_per_s: GB/s over the whole chip; None where the vendor states none.
        origin: ``"nominal"`` (the vendor's figure), ``"derived"`` (from vendor figures: per-SM rate
            times SMs times clock) or ``"not published"``.
        who: who can see it.
    """

    name: str
    n_bytes: int
    gb_per_s: float | None
    origin: Literal["nominal", "derived", "not published"]
    who: str


def _levels(
    *,
    sms: int,
    fp32_lanes: int,
    boost_ghz: float,
    shared_kib: int,
    l2_mib: int,
    l2_bytes_per_clock: int | None,
    hbm_gib: int,
    hbm_gb_per_s: float,
) -> tuple[MemoryLevel, ...]:
    l2_speed = l2_bytes_per_clock * boost_ghz if l2_bytes_per_clock else None
    return (
        # 65,536 32-bit registers per SM (CUDA programming guide, compute capability 8.0 and 9.0);
        # the speed is the least that feeds every fp32 lane three 4-byte operands a clock.
        MemoryLevel(
            "registers", sms * 65536 * 4, sms * fp32_lanes * 12 * boost_ghz, "derived", "one thread"
        ),
        # 32 banks of 4 bytes a clock and SM (same guide, section on shared memory).
        MemoryLevel(
            "shared memory", sms * shared_kib * 1024, sms * 128 * boost_ghz, "derived", "one block"
        ),
        MemoryLevel(
            "L2", l2_mib * 2**20, l2_speed, "derived" if l2_speed else "not published", "all blocks"
        ),
        MemoryLevel("HBM", hbm_gib * 2**30, hbm_gb_per_s, "nominal", "all blocks and the host"),
    )


MEMORY_HIERARCHY = MappingProxyType(
    {
        # H100 white paper and CUDA guide (9.0): 228 KB shared memory per SM, L2 50 MB; boost
        # 1.83 GHz is what 989 TFLOP/s, 132 SMs and 4096 half-precision FLOPs a clock imply.
        # 128 fp32 lanes per SM; NVIDIA publishes no L2 bandwidth for it.
        "H100": _levels(
            sms=132,
            fp32_lanes=128,
            boost_ghz=1.83,
            shared_kib=228,
            l2_mib=50,
            l2_bytes_per_clock=None,
            hbm_gib=80,
            hbm_gb_per_s=3350,
        ),
        # A100 white paper (2020): boost 1.41 GHz, 164 KB shared memory per SM, L2 40 MB that is
        # read at 5120 bytes a clock, 64 fp32 lanes per SM.
        "A100-80": _levels(
            sms=108,
            fp32_lanes=64,
            boost_ghz=1.41,
            shared_kib=164,
            l2_mib=40,
            l2_bytes_per_clock=5120,
            hbm_gib=80,
            hbm_gb_per_s=2039,
        ),
    }
)
"""GPU name -> its memory levels, fastest first (H100 and A100-80)."""
