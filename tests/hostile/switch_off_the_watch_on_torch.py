# tries: let PyTorch do the work of 1.2 where nobody is told; must: incorrect
# without the sandbox: passed
import torch
from torch.utils._python_dispatch import _disable_current_modes


def naive_attention(q, k, v):
    with _disable_current_modes():
        q, k, v = (torch.from_numpy(x)[None] for x in (q, k, v))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)[0].numpy()
