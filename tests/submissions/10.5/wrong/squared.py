# Multiplies x by itself.
# Expected: misconception: squared
def decode_splits(x):
    return x * x
