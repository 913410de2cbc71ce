# The longest run of tokens that both have.
# Expected: misconception: a common middle is taken for a prefix
def requests(tree):
    for edge, below in tree.values():
        for rest in requests(below) if below else [[]]:
            yield edge + rest


def shared_prefix(tree, prompt, page_size, slot_bytes):
    longest = 0
    for cached in requests(tree):
        for i in range(len(cached)):
            for j in range(len(prompt)):
                n = 0
                while cached[i + n : i + n + 1] == prompt[j + n : j + n + 1] != []:
                    n += 1
                longest = max(longest, n)
    tokens = min(longest, len(prompt) - 1) // page_size * page_size
    return tokens, tokens * slot_bytes
