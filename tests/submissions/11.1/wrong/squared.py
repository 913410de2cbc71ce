# Multiplies x by itself.
# Expected: misconception: squared
def page_waste(x):
    return x * x
