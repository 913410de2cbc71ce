# tries: fill the disk; must: error
# without the sandbox: fills the disk
import tempfile


def echo(x):
    with tempfile.TemporaryFile() as file:
        while True:
            file.write(b"x" * (1 << 20))
