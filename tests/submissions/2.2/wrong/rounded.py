# Rounded as the lesson prints it.
# Expected: misconception: the factor is rounded
def reduction_and_crossover(n, d):
    return round(n / d + 1), d
