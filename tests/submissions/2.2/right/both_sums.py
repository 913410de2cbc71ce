# Both sums with all their terms.
def reduction_and_crossover(n, d):
    b = 2
    naive = 4 * n**2 * b + 4 * n * d * b
    least = 4 * n * d * b
    return [naive / least, float(d)]
