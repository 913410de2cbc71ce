# Multiplies x by itself.
# Expected: misconception: squared
def ragged_decode(x):
    return x * x
