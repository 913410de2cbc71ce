# Prompts are dealt with first, out of what the answers will need: tokens and pages are kept back.
from math import ceil


class Pool:
    def __init__(self, free, page_size):
        self.free, self.page_size = free, page_size

    def needs(self, cached, tokens):
        return ceil((cached + tokens) / self.page_size) - ceil(cached / self.page_size)

    def fitting(self, cached, most):
        while most and self.needs(cached, most) > self.free:
            most -= 1
        return most


def next_batch(waiting, running, free_pages, *, budget, page_size):
    pool = Pool(free_pages, page_size)
    leave, answers, begun = [], [], []
    for i, (cached, todo) in running.items():
        if todo == 0:
            leave.append(i)
            pool.free += pool.needs(0, cached)
        else:
            (answers if todo == 1 else begun).append(i)
    pool.free -= sum(pool.needs(running[i][0], 1) for i in answers)
    evicted = False
    while pool.free < 0:
        newest = max([*answers, *begun])
        evicted = True
        leave.append(newest)
        pool.free += pool.needs(0, running[newest][0])
        if newest in answers:
            pool.free += pool.needs(running[newest][0], 1)
            answers.remove(newest)
        else:
            begun.remove(newest)
    queue = [(i, *running[i]) for i in begun]
    if not evicted:
        queue += [(i, 0, todo) for i, todo in waiting.items()]
    compute, for_prompts = {}, budget - len(answers)
    for i, cached, todo in queue:
        tokens = pool.fitting(cached, min(todo, for_prompts))
        if not tokens:
            break
        compute[i] = tokens
        for_prompts -= tokens
        pool.free -= pool.needs(cached, tokens)
    compute.update(dict.fromkeys(answers, 1))
    return compute, leave
