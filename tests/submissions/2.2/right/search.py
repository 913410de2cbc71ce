# The crossover is searched for, N by N.
def reduction_and_crossover(n, d):
    crossover = 1
    while 4 * crossover * crossover < 4 * crossover * d:
        crossover += 1
    return (n + d) / d, crossover
