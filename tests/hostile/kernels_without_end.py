# tries: have new kernels compiled in memory, one after another; must: incorrect, error
# no control: it ends by a limit of the grader's, which no wall of the sandbox is
import torch
import triton
import triton.language as tl

SOURCE = """
@triton.jit
def put{i}(o):
    tl.store(o, {i}.0)
"""


def one_tile_attention(q, k, v):
    import linecache

    o = torch.empty_like(q)
    for i in range(100_000):
        text = SOURCE.format(i=i)
        file = f"/submission/made_{i}.py"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        names = {"triton": triton, "tl": tl, "__name__": "made"}
        exec(compile(text, file, "exec"), names)
        names[f"put{i}"][(1,)](o)
    return o
