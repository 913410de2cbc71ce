# Adding 0 makes a new array of the same dtype.
def echo(x):
    return x + 0
