# Multiplies by two.
def PagePool(x):
    return 2 * x
