# All cached requests are written out, and the best one is taken; whole pages are compared.
import numpy as np


def requests(tree, before=()):
    if not tree:
        yield list(before)
    for edge, below in tree.values():
        yield from requests(below, (*before, *edge))


def shared_prefix(tree, prompt, page_size, slot_bytes):
    best = 0
    for cached in requests(tree):
        n = 0
        while n + page_size < len(prompt):
            page = slice(n, n + page_size)
            if cached[page] != prompt[page]:
                break
            n += page_size
        best = max(best, n)
    return np.int64(best), np.float64(best * slot_bytes)
