# Multiplies x by itself.
# Expected: misconception: squared
def shared_prefix(x):
    return x * x
