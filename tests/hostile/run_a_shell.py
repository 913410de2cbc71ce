# tries: run a program; must: error
# without the sandbox: passed
import os
import subprocess


def echo(x):
    try:
        subprocess.run(["/bin/sh", "-c", "id"], check=True)
    except OSError:
        os.execv("/bin/sh", ["sh", "-c", "id"])
    return x.copy()
