# A Python list instead of an array.
# Expected: property: the type
def echo(x):
    return x.tolist()
