# A loop over the sequences: the first one pays for the prefix.
def attention_intensity(n_q, n_k, *, batch, heads, kv_heads, head_dim, b, shared_prefix=0):
    flops, moved = 0, 0
    for sequence in range(batch):
        for _ in range(heads):
            flops += 2 * n_q * n_k * head_dim  # scores
            flops += 2 * n_q * n_k * head_dim  # values
            moved += n_q * head_dim * b  # q
            moved += n_q * head_dim * b  # o
        rows = n_k if sequence == 0 else n_k - shared_prefix
        moved += 2 * kv_heads * rows * head_dim * b
    return flops / moved
