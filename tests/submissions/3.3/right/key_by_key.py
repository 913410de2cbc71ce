# Plain Python numbers, one key at a time, and a list.
import math


def stream_average(piles, values):
    m, l_sum = -math.inf, 0.0
    o = [0.0] * len(values[0][0])
    for pile, rows in zip(piles, values):
        for s, row in zip(pile, rows):
            if s == -math.inf:
                continue
            m_new = max(m, s)
            alpha, p = math.exp(m - m_new), math.exp(s - m_new)
            l_sum = alpha * l_sum + p
            o = [alpha * a + p * b for a, b in zip(o, row)]
            m = m_new
    return [a / l_sum for a in o]
