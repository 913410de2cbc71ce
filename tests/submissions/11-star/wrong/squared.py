# Multiplies x by itself.
# Expected: misconception: squared
def keep_rows(x):
    return x * x
