# NumPy copies both caches whole, where no ledger looks.
# Expected: property: hides nothing from the ledger
import numpy as np
import torch


def append_token(q, k_new, v_new, k_cache, v_cache, lengths):
    q, k_new, v_new, k_cache, v_cache = (x.numpy() for x in (q, k_new, v_new, k_cache, v_cache))
    o = np.empty_like(q)
    for b, n in enumerate(lengths.tolist()):
        k = np.concatenate([k_cache[b, :, :n], k_new[b]], 1)
        v = np.concatenate([v_cache[b, :, :n], v_new[b]], 1)
        s = (q[b] @ k.swapaxes(-1, -2)).astype(np.float64) / q.shape[-1] ** 0.5
        p = np.exp(s - s.max(-1, keepdims=True))
        o[b] = (p / p.sum(-1, keepdims=True)) @ v
        k_cache[b, :, : n + 1], v_cache[b, :, : n + 1] = k, v
    return torch.from_numpy(o)
