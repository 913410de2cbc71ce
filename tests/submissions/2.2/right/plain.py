# The plain way: wrong.diff holds edits of this file.
def reduction_and_crossover(n, d):
    return 2 * n / d + 1, d / 2
