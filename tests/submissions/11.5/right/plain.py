# Down the tree with an index into the edge, token by token.
def shared_prefix(tree, prompt, page_size, slot_bytes):
    matched = 0
    going = True
    while going and matched < len(prompt) and prompt[matched] in tree:
        edge, tree = tree[prompt[matched]]
        rest = prompt[matched:]
        same = 0
        while same < min(len(edge), len(rest)) and edge[same] == rest[same]:
            same += 1
        matched += same
        going = same == len(edge)
    if matched == len(prompt):
        matched -= 1
    pages = matched // page_size
    tokens = pages * page_size
    saved = tokens * slot_bytes
    return tokens, saved
