# Printed, not returned.
# Expected: property: returns a value
def echo(x):
    print(x)
