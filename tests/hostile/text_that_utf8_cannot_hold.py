# tries: let the grader read another source than the interpreter, by half a pair; must: error
# no control: what a grader makes of such a text depends on what it does with it
import json
import os

import torch
import triton
from course_lib.child import codec
from course_lib.sandbox import channel as channels
from triton.runtime.interpreter import InterpretedFunction

SOURCE = """import triton
import triton.language as tl

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # HALF
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)
"""


def vector_add(x, y, *, block=64):
    run = InterpretedFunction.run
    channel = dict(zip(run.__code__.co_freevars, run.__closure__))["channel"].cell_contents
    out, n = torch.empty_like(x), x.numel()
    arguments = {"x": x, "y": y, "out": out, "n": n, "BLOCK": block}
    grid = [triton.cdiv(n, block)]
    launch = {"source": SOURCE, "name": "add", "grid": grid, "args": arguments, "options": {}}
    encoder = codec.Encoder()
    text = json.dumps(encoder.value({"launch": launch})).replace("HALF", "\\ud800")
    data = codec.joined(text.encode(), encoder.blob)
    frame = channels._HEADER.pack(channels._MAGIC, channel._nonce, len(data)) + data
    while frame:
        frame = frame[os.write(channel._descriptor, frame) :]
    out.copy_(channel.receive()["written"]["out"])
    return out
