# tries: print a hundred megabytes, with the right answer; must: passed
# before a careless grader: fills the disk
def echo(x):
    for _ in range(100):
        print("x" * (1 << 20))
    return x.copy()
