# Multiplies by two.
def next_batch(x):
    return 2 * x
