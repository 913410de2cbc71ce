# A slice of all of x is a view: it shares x's memory.
# Expected: property: returns new memory
def echo(x):
    return x[:]
