# tries: let the hooks of the autotuner write the answer; must: incorrect
# before a careless grader: right
import torch
import triton
import triton.language as tl


def dense(q, k, v):
    """Attention in PyTorch: no line of a kernel."""
    s = q.double() @ k.double().mT * q.shape[-1] ** -0.5
    return (torch.softmax(s, -1) @ v.double()).to(q.dtype)


def hook(args, *rest, **more):
    args["o"].copy_(dense(args["q"], args["k"], args["v"]))


@triton.autotune(
    configs=[triton.Config({"B": 16}, pre_hook=hook)],
    key=[],
    pre_hook=hook,
    post_hook=hook,
    restore_value=["o"],
)
@triton.jit
def nothing(q, k, v, o, B: tl.constexpr):
    tl.store(o, tl.load(o))


def one_tile_attention(q, k, v):
    o = torch.empty_like(q)
    nothing[(1,)](q, k, v, o)
    return o
