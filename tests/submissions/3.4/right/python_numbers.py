# math.exp; an empty side is handed back as it is.
import math


def merge(a, b):
    if a[1] == 0.0:
        return b
    if b[1] == 0.0:
        return a
    m = max(float(a[0]), float(b[0]))
    weights = [math.exp(float(state[0]) - m) for state in (a, b)]
    l_sum = sum(w * float(state[1]) for w, state in zip(weights, (a, b)))
    return m, l_sum, sum(w * state[2] for w, state in zip(weights, (a, b)))
