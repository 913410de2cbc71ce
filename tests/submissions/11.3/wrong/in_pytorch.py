# PyTorch gathers and attends; no kernel runs.
# Expected: property: is a Triton kernel
import torch


def paged_decode(q, k_pages, v_pages, table, lengths, *, block_k=64):
    group = q.shape[1] // k_pages.shape[1]
    o, lse = torch.zeros_like(q), q.new_full(q.shape[:3], float("-inf"), dtype=torch.float32)
    for b, n in enumerate(lengths.tolist()):
        if n == 0:
            continue
        used = table[b, : -(-n // k_pages.shape[2])].long()
        k, v = (
            x[used].transpose(0, 1).flatten(1, 2)[:, :n].repeat_interleave(group, 0)
            for x in (k_pages, v_pages)
        )
        s = q[b].float() @ k.float().mT * q.shape[-1] ** -0.5
        o[b] = torch.softmax(s, -1).to(v.dtype) @ v
        lse[b] = torch.logsumexp(s, -1)
    return o, lse
