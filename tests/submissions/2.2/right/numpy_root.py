# NumPy scalars; the crossover is a root of a polynomial.
import numpy as np


def reduction_and_crossover(n, d):
    crossover = max(np.roots([4, -4 * d, 0]))
    return np.divide(n, d) + 1, crossover
