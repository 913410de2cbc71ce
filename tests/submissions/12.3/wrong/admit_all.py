# Everybody who is there is computed, whatever pages there are.
# Expected: property: promises no page twice
def next_batch(waiting, running, free_pages, *, budget, page_size):
    ended = [i for i, (_, todo) in running.items() if todo == 0]
    compute = {i: 1 for i, (_, todo) in running.items() if todo == 1}
    budget -= len(compute)
    prompts = {i: todo for i, (_, todo) in running.items() if todo > 1}
    for i, todo in (prompts | waiting).items():
        if budget > 0:
            compute[i] = min(todo, budget)
            budget -= compute[i]
    return compute, ended
