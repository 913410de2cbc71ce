# tries: let the grader wait for the rest of a large answer; must: incorrect
# without the sandbox: never ends
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
    os.write(3, frame(b"few", claimed=100 << 20))
    time.sleep(10**6)
