# Multiplies x by itself.
# Expected: misconception: squared
def merge_splits(x):
    return x * x
