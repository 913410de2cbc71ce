# The plain way: right.diff and wrong.diff are edits of this file.
def backward_by_hand():
    """Return delta (2), dv (2), ds (2 rows of 2), dq (2), dk (2)."""
    return {
        "delta": [6.0, 2.4],
        "dv": [0.6, 2.4],
        "ds": [[1.5, -1.5], [0.36, -0.36]],
        "dq": [-0.823959, -0.19775],
        "dk": [2.22, -2.22],
    }
