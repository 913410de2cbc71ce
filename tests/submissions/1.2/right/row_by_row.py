# One query at a time, and a list of rows at the end.
import numpy as np


def softmax(row):
    e = np.exp(row - max(row))
    return e / sum(e)


def naive_attention(q, k, v):
    rows = []
    for query in q:
        scores = np.array([query @ key for key in k]) / len(query) ** 0.5
        rows.append(softmax(scores) @ v)
    return rows
