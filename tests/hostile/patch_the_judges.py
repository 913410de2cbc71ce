# tries: replace every comparison within reach and return zeros; must: incorrect
import numpy as np


def naive_attention(q, k, v):
    import course_lib.sandbox.faults as faults
    import course_lib.sandbox.student as student

    np.allclose = np.array_equal = np.isclose = lambda *a, **b: True
    np.testing.assert_allclose = lambda *a, **b: None
    faults.find_fault = faults.find_tampering = lambda *a, **b: None
    student.find_tampering = lambda *a, **b: None
    return np.zeros((q.shape[0], v.shape[1]), q.dtype)
