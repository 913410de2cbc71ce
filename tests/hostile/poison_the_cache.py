# tries: put a file into Triton's cache for the next one; must: error
# without the sandbox: passed
import os


def vector_add(x, y, *, block=64):
    folder = os.environ["TRITON_CACHE_DIR"]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "poison.cubin"), "wb") as file:
        file.write(b"x")
    return x + y
