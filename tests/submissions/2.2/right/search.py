# The crossover is searched for, between two numbers.
def reduction_and_crossover(n, d):
    low, high = 0.0, float(d)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if 16 * middle**2 < 8 * middle * d else (low, middle)
    return (2 * n + d) / d, high
