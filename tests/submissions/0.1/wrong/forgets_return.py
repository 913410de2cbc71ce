# No return.
# Expected: property: returns a value
def echo(x):
    y = x.copy()
