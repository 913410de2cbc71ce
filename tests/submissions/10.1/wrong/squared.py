# Multiplies x by itself.
# Expected: misconception: squared
def attention_intensity(x):
    return x * x
