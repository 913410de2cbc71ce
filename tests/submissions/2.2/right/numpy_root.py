# NumPy scalars; the crossover is a root of a polynomial.
import numpy as np


def reduction_and_crossover(n, d):
    crossover = max(np.roots([16, -8 * d, 0]))
    return np.divide(n, d) * 2 + 1, crossover
