# Answers first, then prompts in chunks, the oldest first; the newest leaves when pages run out.
def pages_for(tokens, page_size):
    return -(-tokens // page_size)


def next_batch(waiting, running, free_pages, *, budget, page_size):
    leave = [i for i, (cached, todo) in running.items() if todo == 0]
    stay = {i: state for i, state in running.items() if i not in leave}
    free = free_pages + sum(pages_for(running[i][0], page_size) for i in leave)

    def growing():
        return sum(todo == 1 and cached % page_size == 0 for cached, todo in stay.values())

    short = growing() > free
    while growing() > free:
        victim = max(stay)
        leave.append(victim)
        free += pages_for(stay.pop(victim)[0], page_size)

    compute = {i: 1 for i, (cached, todo) in stay.items() if todo == 1}
    free -= growing()
    left = budget - len(compute)
    prompts = {i: state for i, state in stay.items() if state[1] > 1}
    if not short:
        prompts.update({i: (0, todo) for i, todo in waiting.items()})
    for i, (cached, todo) in prompts.items():
        has = pages_for(cached, page_size)
        room = (has + free) * page_size - cached
        tokens = min(todo, left, room)
        if tokens <= 0:
            break
        compute[i] = tokens
        left -= tokens
        free -= pages_for(cached + tokens, page_size) - has
    return compute, leave
