# Tokens are dealt one by one, the answers' first, until budget or pages are used up.
def next_batch(waiting, running, free_pages, *, budget, page_size):
    cached = dict.fromkeys(waiting, 0) | {i: state[0] for i, state in running.items()}
    todo = waiting | {i: state[1] for i, state in running.items()}
    leave = [i for i in running if todo[i] == 0]
    free = free_pages + sum((cached[i] + page_size - 1) // page_size for i in leave)
    prompts = {i for i in running if todo[i] > 1}
    order = sorted((i for i in todo if todo[i]), key=lambda i: (i in waiting, i in prompts, i))
    compute = {}
    while order and budget:
        i = order[0]
        if cached[i] % page_size == 0 and free == 0:
            if i in waiting or running[i][1] > 1:
                break
            newest = max(j for j in order if j in running)
            free += (running[newest][0] + page_size - 1) // page_size
            order = [j for j in order if j in running and j != newest]
            leave.append(newest)
            continue
        free -= cached[i] % page_size == 0
        cached[i] += 1
        todo[i] -= 1
        budget -= 1
        compute[i] = compute.get(i, 0) + 1
        if todo[i] == 0:
            order.pop(0)
    return compute, leave
