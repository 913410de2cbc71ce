# Multiplies by two.
def page_waste(x):
    return 2 * x
