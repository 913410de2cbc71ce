# tries: return the very input instead of an array of its own; must: incorrect
# before a careless grader: right
def echo(x):
    return x[...]
