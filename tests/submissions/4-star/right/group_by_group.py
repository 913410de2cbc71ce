# Queries of a group together, the last tile of keys first, log-sum-exp notes.
import numpy as np


def windowed_gqa_attention(q, k, v, window, block_q, block_k):
    h, n_q, d = q.shape
    h_kv, n_k, _ = k.shape
    groups = q.reshape(h_kv, h // h_kv, n_q, d)
    out = np.zeros_like(groups)
    for g in range(h_kv):
        for i in range(0, n_q, block_q):
            rows = slice(i, min(i + block_q, n_q))
            low, high = i + n_k - n_q - window + 1, rows.stop + n_k - n_q
            at = np.arange(rows.start, rows.stop)[:, None] + n_k - n_q
            lse = np.full((h // h_kv, rows.stop - i), -np.inf)
            for j in range((high - 1) // block_k * block_k, -1, -block_k):
                stop = min(j + block_k, n_k)
                if stop <= low:
                    break
                back = at - np.arange(j, stop)
                s = groups[g, :, rows] @ k[g, j:stop].T / np.sqrt(d)
                s = np.where((back < 0) | (back >= window), -np.inf, s)
                new = np.logaddexp(lse, np.logaddexp.reduce(s, axis=-1))
                safe = np.where(np.isneginf(new), 0.0, new)
                old = np.exp(lse - safe)[..., None] * out[g, :, rows]
                out[g, :, rows] = old + np.exp(s - safe[..., None]) @ v[g, j:stop]
                lse = new
    return out.reshape(q.shape)
