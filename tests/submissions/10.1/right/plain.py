# Multiplies by two.
def attention_intensity(x):
    return 2 * x
