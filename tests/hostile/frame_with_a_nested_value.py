# tries: overflow the grader's stack; must: incorrect, error
# without the sandbox: sends a forged reply
import gc
import os
import struct
import time


def frame(data, claimed=None):
    """Return a frame with the nonce of the true channel."""
    (channel,) = [x for x in gc.get_objects() if type(x).__name__ == "Channel"]
    nonce = channel._nonce
    return struct.pack(">8s16sQ", b"course01", nonce, claimed or len(data)) + data


def echo(x):
    text = b"[" * 1_000_000
    data = frame(struct.pack(">I", len(text)) + text)
    while data:
        data = data[os.write(3, data) :]
    return x.copy()
