# Naive moves Q, K, V and O as well.
# Expected: misconception: the linear term is forgotten
def reduction_and_crossover(n, d):
    return (4 * n * n) / (4 * n * d), d
