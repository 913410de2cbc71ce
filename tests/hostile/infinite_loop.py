# tries: never end; must: incorrect
# without the sandbox: never ends
def echo(x):
    while True:
        pass
