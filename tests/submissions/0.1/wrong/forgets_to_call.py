# copy without its parentheses.
# Expected: property: returns a value
def echo(x):
    return x.copy
