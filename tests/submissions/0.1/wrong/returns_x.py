# The very same array.
# Expected: property: returns new memory
def echo(x):
    return x
