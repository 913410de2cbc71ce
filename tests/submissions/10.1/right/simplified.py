# d and the two tensors of each kind are cancelled.
def attention_intensity(n_q, n_k, batch, heads, kv_heads, head_dim, b, shared_prefix=0):
    group = heads / kv_heads
    rows = (n_k - shared_prefix) + shared_prefix / batch
    return 2 * n_k / (b * (1 + rows / (group * n_q)))
