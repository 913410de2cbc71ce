# Multiplies x by itself.
# Expected: misconception: squared
def PagePool(x):
    return x * x
