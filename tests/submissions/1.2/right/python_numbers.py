# Plain Python numbers and math.exp.
import math


def naive_attention(q, k, v):
    q, k, v = q.tolist(), k.tolist(), v.tolist()
    d = len(q[0])
    out = []
    for a in q:
        s = [sum(x * y for x, y in zip(a, b)) / math.sqrt(d) for b in k]
        e = [math.exp(x - max(s)) for x in s]
        p = [x / sum(e) for x in e]
        out.append([sum(w * row[c] for w, row in zip(p, v)) for c in range(d)])
    return out
