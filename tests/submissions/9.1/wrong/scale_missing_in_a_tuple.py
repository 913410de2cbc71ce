# Forgets 1/2 in dQ and dK, and returns a tuple in the order of the task.
# Expected: misconception: the last scale is missing
# Equivalence class: the same mistake in another form of answer.
def backward_by_hand():
    ds = [[1.5, -1.5], [0.36, -0.36]]
    return [6.0, 2.4], [0.6, 2.4], ds, [-1.647918, -0.3955], [4.44, -4.44]
