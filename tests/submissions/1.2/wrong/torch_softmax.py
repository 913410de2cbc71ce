# NumPy's products, PyTorch's softmax.
# Expected: property: is written in NumPy
import numpy as np
import torch


def naive_attention(q, k, v):
    scores = torch.from_numpy(q @ k.T / np.sqrt(q.shape[1]))
    return scores.softmax(-1).numpy() @ v
