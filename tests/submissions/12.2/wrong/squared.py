# Multiplies x by itself.
# Expected: misconception: squared
def int8_cache(x):
    return x * x
