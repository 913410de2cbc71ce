# The oldest gives up its pages when they run out, and comes back first: nobody gets on.
# Expected: property: every request gets its answer
def pages_for(tokens, page_size):
    return -(-tokens // page_size)


def next_batch(waiting, running, free_pages, *, budget, page_size):
    leave = [i for i, (c, t) in running.items() if t == 0]
    free = free_pages + sum(pages_for(running[i][0], page_size) for i in leave)
    alive = {i: ct for i, ct in running.items() if ct[1] > 0}

    def need():
        return sum(c % page_size == 0 for c, t in alive.values() if t == 1)

    gone = False
    while need() > free:
        oldest = min(alive)
        free += pages_for(alive.pop(oldest)[0], page_size)
        leave.append(oldest)
        gone = True
    compute = {}
    for i, (c, t) in alive.items():
        if t == 1:
            compute[i] = 1
            free -= c % page_size == 0
            budget -= 1
    todo = {i: ct for i, ct in alive.items() if ct[1] > 1}
    todo.update({i: (0, t) for i, t in waiting.items()})
    for i in sorted(todo):
        c, t = todo[i]
        if gone:
            break
        room = (pages_for(c, page_size) + free) * page_size - c
        n = min(t, budget, room)
        if n <= 0:
            break
        compute[i] = n
        budget -= n
        free -= pages_for(c + n, page_size) - pages_for(c, page_size)
        if n < t:
            break
    return compute, leave
