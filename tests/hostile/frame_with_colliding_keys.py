# tries: stall the grader with keys that all have one hash; must: incorrect, error
# without the sandbox: sends a forged reply
import gc
import json
import os
import struct
import time


def frame(data, claimed=None):
    """Return a frame with the nonce of the true channel."""
    (channel,) = [x for x in gc.get_objects() if type(x).__name__ == "Channel"]
    nonce = channel._nonce
    return struct.pack(">8s16sQ", b"course01", nonce, claimed or len(data)) + data


def echo(x):
    keys = [[i * ((1 << 61) - 1), None] for i in range(200_000)]
    text = json.dumps(["d", keys]).encode()
    os.write(3, frame(struct.pack(">I", len(text)) + text))
    return x.copy()
