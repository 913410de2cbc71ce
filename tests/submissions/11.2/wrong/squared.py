# Multiplies x by itself.
# Expected: misconception: squared
def gather_pages(x):
    return x * x
