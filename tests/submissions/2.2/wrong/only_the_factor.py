# One number.
# Expected: property: returns a tuple
def reduction_and_crossover(n, d):
    return n / d + 1
