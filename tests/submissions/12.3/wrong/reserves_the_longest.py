# Static batching with room for the longest request set aside for each; all leave together.
# Expected: property: who has ended leaves at once
MOST = 48


def next_batch(waiting, running, free_pages, *, budget, page_size):
    if running and all(todo == 0 for _, todo in running.values()):
        return {}, list(running)
    batch = running
    if not running:
        size = max(1, free_pages * page_size // MOST)
        batch = {i: (0, todo) for i, todo in list(waiting.items())[:size]}
    compute = {}
    for i, (_, todo) in sorted(batch.items(), key=lambda one: one[1][1] > 1):
        if todo and budget:
            compute[i] = min(todo, budget)
            budget -= compute[i]
    return compute, []
