# tries: replace every comparison within reach and return zeros; must: incorrect
import numpy as np


def naive_attention(q, k, v):
    from course_lib.sandbox import calling, inputs

    np.allclose = np.array_equal = np.isclose = lambda *a, **b: True
    np.testing.assert_allclose = lambda *a, **b: None
    inputs.find_tampering = calling.find_tampering = lambda *a, **b: None
    return np.zeros((q.shape[0], v.shape[1]), q.dtype)
