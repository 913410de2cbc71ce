# Equal tokens at equal places, wherever they are.
# Expected: misconception: a common middle is taken for a prefix
def requests(tree):
    for edge, below in tree.values():
        for rest in requests(below) if below else [[]]:
            yield edge + rest


def shared_prefix(tree, prompt, page_size, slot_bytes):
    same = [sum(a == b for a, b in zip(cached, prompt)) for cached in requests(tree)]
    tokens = min(max(same, default=0), len(prompt) - 1) // page_size * page_size
    return tokens, tokens * slot_bytes
