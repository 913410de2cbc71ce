# Multiplies x by itself.
# Expected: misconception: squared
def tree_decode(x):
    return x * x
