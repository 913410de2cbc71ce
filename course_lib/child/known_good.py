"""A kernel that certainly compiles: where it does and a student's does not, the fault is theirs."""

from __future__ import annotations

import os
import tempfile

import triton
import triton.language as tl


@triton.jit
def store_one(x):  # type: ignore[no-untyped-def]  # noqa: D103
    tl.store(x, 1.0)


def is_assembled(arch: int) -> bool:
    """Return whether Triton and its assembler make machine code for this target now."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    source = ASTSource(fn=store_one, signature={"x": "*fp32"}, constexprs={})
    before = os.environ.get("TRITON_CACHE_DIR")
    with tempfile.TemporaryDirectory() as fresh:  # what is cached says nothing
        os.environ["TRITON_CACHE_DIR"] = fresh
        try:
            triton.compile(source, target=GPUTarget("cuda", arch, 32))
        except Exception:
            return False
        finally:
            del os.environ["TRITON_CACHE_DIR"]
            if before is not None:
                os.environ["TRITON_CACHE_DIR"] = before
    return True
