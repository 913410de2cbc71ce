# The plain way: right.diff and wrong.diff are edits of this file.
def echo(x):
    return x.copy()
