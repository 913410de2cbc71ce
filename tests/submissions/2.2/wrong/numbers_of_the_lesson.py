# The lesson's own pair, whatever n and d.
# Expected: property: the answer
def reduction_and_crossover(n, d):
    return 65, 128
