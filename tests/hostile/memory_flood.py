# tries: take all the memory; must: error, incorrect
def echo(x):
    hoard = []
    while True:
        hoard.append(bytearray(64 << 20))
