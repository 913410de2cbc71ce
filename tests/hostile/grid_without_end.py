# tries: blame the grader with a grid and numbers that no integer holds; must: error, incorrect
# no control: what a grader blames on itself is its record, and no effect of this file
import torch
import triton
import triton.language as tl


@triton.jit
def nothing(q, scale, o):
    tl.store(o, tl.load(q) * scale)


def one_tile_attention(q, k, v):
    import course_lib.sandbox.channel as channel

    send = channel.Channel.send

    def forged(self, message, **options):
        if "launch" in message:
            message["launch"]["grid"] = [float("inf")]
        return send(self, message, **options)

    channel.Channel.send = forged
    nothing[(1,)](q.to(torch.complex128), float("inf"), torch.empty(1))
    return q
