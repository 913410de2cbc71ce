# Computes something.
# Expected: misconception: something is computed
def echo(x):
    return 2 * x
