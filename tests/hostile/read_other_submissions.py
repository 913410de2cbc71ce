# tries: list the folders in which other submissions lie; must: error
import os


def echo(x):
    for place in ("/tmp", "/home", "/root", os.getcwd()):
        os.listdir(place)
    return x.copy()
