# tries: write wherever it can, and leave a link behind; must: error
import os


def echo(x):
    failed = 0
    for place in (".", "/tmp", os.environ.get("TMPDIR", "/tmp"), os.environ.get("HOME", "/")):
        try:
            with open(os.path.join(place, "hostile_was_here"), "w") as file:
                file.write("x")
            os.symlink("/etc/passwd", os.path.join(place, "hostile_link"))
        except OSError:
            failed += 1
    if failed:
        raise OSError(f"{failed} places refused")
    return x.copy()
