# All heads are the rows of one query matrix, the cache is one key head: PyTorch's own attention.
import torch
import torch.nn.functional as F


def latent_decode(q_nope, q_rope, latent, k_rope, w_uk, w_uv):
    q_latent = torch.matmul(q_nope.transpose(0, 1), w_uk).transpose(0, 1)
    q = torch.cat((q_latent, q_rope), dim=-1).unsqueeze(1)
    k = torch.cat((latent, k_rope), dim=-1).unsqueeze(1)
    scale = 1.0 / (q_nope.size(-1) + q_rope.size(-1)) ** 0.5
    o = F.scaled_dot_product_attention(q, k, latent.unsqueeze(1), scale=scale)[:, 0]
    return torch.matmul(o.transpose(0, 1), w_uv.transpose(1, 2)).transpose(0, 1)
