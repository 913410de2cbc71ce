# Both sums with all their terms.
def reduction_and_crossover(n, d):
    naive = 4 * n**2 * 4 + 4 * n * d * 2
    least = 4 * n * d * 2
    return [naive / least, 0.5 * d]
