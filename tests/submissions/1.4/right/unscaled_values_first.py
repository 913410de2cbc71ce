# The transposed chart: its columns are the queries.
import math

import torch


def four_trip_attention(q, k, v):
    s = k @ (q / math.sqrt(q.shape[-1])).mT  # (..., n_k, n_q)
    return (v.mT @ torch.softmax(s, dim=-2)).mT
