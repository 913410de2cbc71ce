# tries: take all the memory; must: error, incorrect
# without the sandbox: takes the memory
def echo(x):
    hoard = []
    while True:
        hoard.append(bytearray(64 << 20))
