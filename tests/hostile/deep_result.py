# tries: return a list nested a hundred thousand deep; must: incorrect, error
# before a careless grader: overflows the stack
def echo(x):
    nest = []
    for _ in range(100_000):
        nest = [nest]
    return nest
