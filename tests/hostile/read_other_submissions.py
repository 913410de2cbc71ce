# tries: list the folders in which other submissions lie; must: error
# without the sandbox: passed
import os


def echo(x):
    refused = 0
    places = ("/tmp", "/home", "/root", os.getcwd())
    for place in places:
        try:
            os.listdir(place)
        except OSError:
            refused += 1
    if refused == len(places):
        raise OSError("all places refused")
    return x.copy()
