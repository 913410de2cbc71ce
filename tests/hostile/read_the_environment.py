# tries: read secrets from the environment and from /proc; must: error
# without the sandbox: passed
import os


def echo(x):
    assert not [name for name in os.environ if "TOKEN" in name or "COURSE" in name]
    open(f"/proc/{os.getppid()}/environ", "rb").read()
    return x.copy()
