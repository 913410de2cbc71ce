# x should stay as it was.
# Expected: property: leaves its inputs alone
def echo(x):
    y = x.copy()
    x[...] = 0
    return y
