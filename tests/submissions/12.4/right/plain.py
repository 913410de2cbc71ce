# Multiplies by two.
def choose_backend(x):
    return 2 * x
