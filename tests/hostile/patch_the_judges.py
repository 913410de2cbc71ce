# tries: replace every comparison within reach and return zeros; must: incorrect
# before a careless grader: right
import sys

import numpy as np


def naive_attention(q, k, v):
    import course_lib.sandbox.inputs  # noqa: F401  the one that is there in any case

    np.allclose = np.array_equal = np.isclose = lambda *a, **b: True
    np.testing.assert_allclose = lambda *a, **b: None
    for name, module in list(sys.modules.items()):
        if name.startswith("course_lib."):
            for thing in vars(module):
                if thing.startswith(("find_", "judge")) or thing.endswith("_finding"):
                    setattr(module, thing, lambda *a, **b: None)
    return np.zeros((q.shape[0], v.shape[1]), q.dtype)
