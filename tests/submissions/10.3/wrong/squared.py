# Multiplies x by itself.
# Expected: misconception: squared
def split_decode(x):
    return x * x
