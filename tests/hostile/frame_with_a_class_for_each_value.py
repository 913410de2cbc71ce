# tries: fill the grader's memory with classes; must: incorrect, error
# no control: classes that are made are no harm to a grader that ends
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
    text = json.dumps(["l", [["x", f"kind {i}"] for i in range(300_000)]]).encode()
    data = frame(struct.pack(">I", len(text)) + text)
    while data:
        data = data[os.write(3, data) :]
    return x.copy()
