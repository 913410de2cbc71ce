# FLOPs over bytes, each on a line of its own.
def attention_intensity(n_q, n_k, *, batch, heads, kv_heads, head_dim, b, shared_prefix=0):
    queries = batch * heads * n_q
    own = n_k - shared_prefix
    cached = kv_heads * (shared_prefix + batch * own)
    flops = 4 * queries * n_k * head_dim
    q_and_o = 2 * queries * head_dim * b
    k_and_v = 2 * cached * head_dim * b
    n_bytes = q_and_o + k_and_v
    return flops / n_bytes
