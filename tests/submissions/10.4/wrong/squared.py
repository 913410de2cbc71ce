# Multiplies x by itself.
# Expected: misconception: squared
def packed_decode(x):
    return x * x
