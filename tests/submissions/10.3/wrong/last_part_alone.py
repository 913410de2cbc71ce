# Parts are merged one after the other, but what was merged before is left out of o.
# Expected: misconception: the past is thrown away
import torch


def split_decode(q, k, v, splits):
    B, H, _, d = q.shape
    G, n = k.shape[1:3]
    size = (n + splits - 1) // splits
    op = q.new_zeros(splits, B, H, 1, d)
    lp = q.new_full((splits, B, H, 1), -torch.inf)
    qq = q.view(B, G, H // G, d) if q.is_contiguous() else q.reshape(B, G, H // G, d)
    lse, o = lp[0].clone(), op[0].clone()
    for i in range(splits):
        if i * size >= n:
            break
        kt, vt = k[:, :, i * size : (i + 1) * size], v[:, :, i * size : (i + 1) * size]
        s = torch.einsum("bgrd,bgnd->bgrn", qq, kt) * d**-0.5
        m = s.amax(-1, keepdim=True)
        p = (s - m).exp()
        l = p.sum(-1, keepdim=True)
        op[i] = (p @ vt / l).reshape(B, H, 1, d)
        lp[i] = (m + l.log()).reshape(B, H, 1)
        new = torch.logaddexp(lse, lp[i])
        o = (lp[i] - new).exp()[..., None] * op[i]
        lse = new
    return op, lp, o, lse
