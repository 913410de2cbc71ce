# Pages in a dictionary, by their own tokens.
# Expected: misconception: a page is known by its own tokens alone
def requests(tree):
    for edge, below in tree.values():
        for rest in requests(below) if below else [[]]:
            yield edge + rest


def shared_prefix(tree, prompt, page_size, slot_bytes):
    known = set()
    for cached in requests(tree):
        for start in range(0, len(cached), page_size):
            known.add(tuple(cached[start : start + page_size]))
    tokens = 0
    while tokens + page_size < len(prompt) and tuple(prompt[tokens : tokens + page_size]) in known:
        tokens += page_size
    return tokens, tokens * slot_bytes
