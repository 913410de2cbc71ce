# tries: return a dict of very many keys, each of which is looked at; must: error
# no control: how long a grader would look depends on how it looks
def echo(x):
    return {i: float(i) for i in range(100_000)}
