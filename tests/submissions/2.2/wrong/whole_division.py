# // drops what is left over.
# Expected: misconception: whole division
def reduction_and_crossover(n, d):
    return n // d + 1, d
