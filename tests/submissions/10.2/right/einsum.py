# index_copy_ for each sequence, einsum, exponentials by hand.
import torch


def append_token(q, k_new, v_new, k_cache, v_cache, lengths):
    rows = []
    for q_b, k, v, k_b, v_b, n in zip(q, k_cache, v_cache, k_new, v_new, lengths, strict=True):
        k.index_copy_(1, n.reshape(1), k_b)
        v.index_copy_(1, n.reshape(1), v_b)
        s = torch.einsum("hid,hjd->hij", q_b, k[:, : n + 1]) * q.shape[-1] ** -0.5
        e = torch.exp(s - s.amax(-1, keepdim=True))
        rows.append(torch.einsum("hij,hjd->hid", e / e.sum(-1, keepdim=True), v[:, : n + 1]))
    return torch.stack(rows)
