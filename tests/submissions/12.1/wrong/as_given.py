# The expanded form, as it was given.
# Expected: property: makes nothing as large as K of all heads
import torch


def latent_decode(q_nope, q_rope, latent, k_rope, w_uk, w_uv):
    k_nope = torch.einsum("bnr,hdr->bhnd", latent, w_uk)
    v = torch.einsum("bnr,hvr->bhnv", latent, w_uv)
    k_rope = k_rope[:, None].expand(-1, len(w_uk), -1, -1)
    k = torch.cat([k_nope, k_rope], -1)
    q = torch.cat([q_nope, q_rope], -1)[:, :, None]
    s = q @ k.mT / q.shape[-1] ** 0.5
    return (torch.softmax(s, -1) @ v)[:, :, 0]
