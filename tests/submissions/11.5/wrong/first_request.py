# The first path of the tree, and no other.
# Expected: misconception: the first request is compared, not the best
def shared_prefix(tree, prompt, page_size, slot_bytes):
    cached = []
    while tree:
        edge, tree = next(iter(tree.values()))
        cached += edge
    n = 0
    while n < min(len(cached), len(prompt) - 1) and cached[n] == prompt[n]:
        n += 1
    n -= n % page_size
    return n, n * slot_bytes
