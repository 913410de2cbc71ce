# Multiplies x by itself.
# Expected: misconception: squared
def latent_decode(x):
    return x * x
