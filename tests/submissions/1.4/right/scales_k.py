# k is as small as q.
import math


def four_trip_attention(q, k, v):
    scores = q @ (k / math.sqrt(k.size(-1))).transpose(-2, -1)
    return scores.softmax(-1) @ v
