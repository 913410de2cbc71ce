# One token at a time: the edge that is being walked, and the place in it.
def shared_prefix(tree, prompt, page_size, slot_bytes):
    edge, at, below = [], 0, tree
    n = 0
    for token in prompt[:-1]:
        if at == len(edge):
            if token not in below:
                break
            edge, below = below[token]
            at = 0
        if edge[at] != token:
            break
        at += 1
        n += 1
    n -= n % page_size
    return n, n * slot_bytes
