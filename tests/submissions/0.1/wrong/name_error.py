# A name that does not exist.
# Expected: verdict: error
def echo(x):
    return y  # noqa: F821
