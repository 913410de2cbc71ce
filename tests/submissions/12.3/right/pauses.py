# Answers without a page pause; somebody leaves only if nobody can go on.
def next_batch(waiting, running, free_pages, *, budget, page_size):
    def new_pages(cached, tokens):
        return -(-(cached + tokens) // page_size) + (-cached // page_size)

    ended = [i for i in running if running[i][1] == 0]
    free = free_pages + sum(new_pages(0, running[i][0]) for i in ended)
    answers = [i for i in running if running[i][1] == 1]
    compute = {}
    for i in answers:
        needed = new_pages(running[i][0], 1)
        if needed <= free:
            compute[i] = 1
            free -= needed
    if len(compute) < len(answers):
        return compute, ended if compute else [*ended, max(i for i in running if i not in ended)]
    tokens_left = budget - len(compute)
    begun = [(i, *running[i]) for i in running if running[i][1] > 1]
    for i, cached, todo in [*begun, *((i, 0, todo) for i, todo in waiting.items())]:
        tokens = min(todo, tokens_left)
        while tokens > 0 and new_pages(cached, tokens) > free:
            tokens -= 1
        if tokens == 0:
            break
        compute[i] = tokens
        tokens_left -= tokens
        free -= new_pages(cached, tokens)
    return compute, ended
