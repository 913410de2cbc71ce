# tries: let PyTorch's fused attention do the work of a kernel; must: incorrect
# without the sandbox: passed
import torch.nn.functional as F


def one_tile_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)
