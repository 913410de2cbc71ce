# tries: return the very input instead of an array of its own; must: incorrect
def echo(x):
    return x[...]
