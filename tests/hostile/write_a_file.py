# tries: write wherever it can, and leave a link behind; must: error
# without the sandbox: passed
import os


def echo(x):
    refused = 0
    places = (".", "/tmp", os.environ.get("TMPDIR", "/tmp"), os.environ.get("HOME", "/"))
    for place in places:
        try:
            with open(os.path.join(place, "hostile_was_here"), "w") as file:
                file.write("x")
            if not os.path.lexists(link := os.path.join(place, "hostile_link")):
                os.symlink("/etc/passwd", link)
        except OSError:
            refused += 1
    if refused == len(places):
        raise OSError("all places refused")
    return x.copy()
