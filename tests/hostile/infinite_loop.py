# tries: never end; must: incorrect
def echo(x):
    while True:
        pass
