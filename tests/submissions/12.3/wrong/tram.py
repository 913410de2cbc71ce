# The policy of the lesson, copied: room for the longest is set aside, a prompt comes as a whole.
# Expected: property: cuts a long prompt into chunks
def next_batch(waiting, running, free_pages, *, budget, page_size):
    ended = [i for i, (_, todo) in running.items() if not todo]
    seats = free_pages * page_size // 256 + len(ended)
    compute = {i: todo for i, (_, todo) in running.items() if todo}
    return compute | dict(list(waiting.items())[:seats]), ended
