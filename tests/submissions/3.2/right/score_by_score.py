# math.exp, one score at a time.
import math


def stream_denominator(piles):
    m, l_sum = -math.inf, 0.0
    for pile in piles:
        for s in pile:
            if s > m:
                l_sum *= math.exp(m - s)
                m = s
            l_sum += math.exp(s - m)
    return [m, l_sum]
