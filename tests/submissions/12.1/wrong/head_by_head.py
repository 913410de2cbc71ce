# Each head's K and V are built, one head at a time.
# Expected: property: makes nothing as large as K of all heads
import torch


def latent_decode(q_nope, q_rope, latent, k_rope, w_uk, w_uv):
    heads = []
    for h in range(len(w_uk)):
        k = torch.cat([latent @ w_uk[h].T, k_rope], -1)
        v = latent @ w_uv[h].T
        q = torch.cat([q_nope[:, h], q_rope[:, h]], -1)[:, None]
        p = torch.softmax(q @ k.mT / k.shape[-1] ** 0.5, -1)
        heads.append((p @ v)[:, 0])
    return torch.stack(heads, 1)
