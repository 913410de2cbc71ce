# tries: return one row that broadcasts against the answer; must: incorrect
def naive_attention(q, k, v):
    return v.mean(0, keepdims=True)
