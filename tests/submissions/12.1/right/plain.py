# einsum throughout, the softmax by hand.
import torch


def latent_decode(q_nope, q_rope, latent, k_rope, w_uk, w_uv):
    d = q_nope.shape[-1] + q_rope.shape[-1]
    q_latent = torch.einsum("bhd,hdr->bhr", q_nope, w_uk)
    s_nope = torch.einsum("bhr,bnr->bhn", q_latent, latent)
    s_rope = torch.einsum("bhe,bne->bhn", q_rope, k_rope)
    s = (s_nope + s_rope) / d**0.5
    e = torch.exp(s - s.amax(-1, keepdim=True))
    p = e / e.sum(-1, keepdim=True)
    averaged = torch.einsum("bhn,bnr->bhr", p, latent)
    return torch.einsum("bhr,hvr->bhv", averaged, w_uv)
