# tries: never end before anything is asked; must: incorrect
# without the sandbox: never ends
def endless(function):
    while True:
        pass


@endless
def echo(x):
    return x.copy()
