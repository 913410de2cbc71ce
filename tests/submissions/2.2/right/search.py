# The crossover is searched for, N by N.
def reduction_and_crossover(n, d):
    crossover = 1
    while 16 * crossover * crossover < 8 * crossover * d:
        crossover += 1
    return (2 * n + d) / d, crossover
