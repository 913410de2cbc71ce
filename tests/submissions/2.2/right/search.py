# The crossover is searched for, by halves.
def reduction_and_crossover(n, d):
    crossover = 0.5
    while 16 * crossover * crossover < 8 * crossover * d:
        crossover += 0.5
    return (2 * n + d) / d, crossover
