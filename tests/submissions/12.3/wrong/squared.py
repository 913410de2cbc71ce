# Multiplies x by itself.
# Expected: misconception: squared
def next_batch(x):
    return x * x
