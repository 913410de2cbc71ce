# tries: return a million values one by one, each of which is looked at; must: error
# no control: how long a grader would look depends on how it looks
def echo(x):
    return [float(x[0])] * 1_000_000
