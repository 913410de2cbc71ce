# A function that calls itself on what is left of the prompt.
def agree(a, b):
    n = 0
    for x, y in zip(a, b):
        if x != y:
            return n
        n += 1
    return n


def walk(tree, prompt):
    if not prompt or prompt[0] not in tree:
        return 0
    edge, below = tree[prompt[0]]
    n = agree(edge, prompt)
    return n + walk(below, prompt[n:]) if n == len(edge) else n


def shared_prefix(tree, prompt, page_size, slot_bytes):
    pages = walk(tree, prompt[:-1]) // page_size  # the last token is not even looked for
    return [pages * page_size, pages * page_size * slot_bytes]
