# Multiplies by two.
def gather_pages(x):
    return 2 * x
