# Any shape is asked for, not one dimension.
# Expected: property: the shape
def echo(x):
    return x.flatten()
