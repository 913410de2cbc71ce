# tries: read the memory of the process above; must: error
# without the sandbox: passed
import os


def echo(x):
    with open(f"/proc/{os.getppid()}/mem", "rb", buffering=0) as memory:
        memory.seek(id(None))  # it lies there as it does here: this process was forked
        assert memory.read(8)
    return x.copy()
