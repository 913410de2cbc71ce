# tries: return a few bytes that are gigabytes when they are compared; must: incorrect, error
# before a careless grader: takes the memory
import torch


def echo(x):
    return {i: torch.zeros(1).expand(1 << 24) for i in range(10_000)}
