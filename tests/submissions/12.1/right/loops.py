# One sequence and one head after the other.
import math

import torch


def latent_decode(q_nope, q_rope, latent, k_rope, w_uk, w_uv):
    batch, heads, d_nope = q_nope.shape
    o = q_nope.new_empty(batch, heads, w_uv.shape[1])
    for b in range(batch):
        for h in range(heads):
            q = w_uk[h].T @ q_nope[b, h]
            s = (latent[b] @ q + k_rope[b] @ q_rope[b, h]) / math.sqrt(d_nope + q_rope.shape[2])
            o[b, h] = w_uv[h] @ (torch.softmax(s, 0) @ latent[b])
    return o
