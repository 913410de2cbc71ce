# Multiplies x by itself.
# Expected: misconception: squared
def choose_backend(x):
    return x * x
