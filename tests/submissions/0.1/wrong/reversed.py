# The numbers in another order.
# Expected: property: the values
def echo(x):
    return x[::-1].copy()
