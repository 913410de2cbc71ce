# Multiplies x by itself.
# Expected: misconception: squared
def append_token(x):
    return x * x
