# Multiplies x by itself.
# Expected: misconception: squared
def paged_decode(x):
    return x * x
