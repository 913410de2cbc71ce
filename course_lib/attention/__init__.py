"""What attention computes, one idea a file, exact and readable.

NumPy, exported here: ``naive``, ``online_softmax``, ``tiled``, ``masks`` and the float64 ``truth``.
``slips`` is the online softmax with known mistakes in it, for those who judge or show them.
PyTorch, imported from their own files so that a lesson on NumPy needs no torch:
``from course_lib.attention.naive_eager import naive_eager`` and
``from course_lib.attention.tiled_eager import tiled_eager``.
"""

from course_lib.attention import masks
from course_lib.attention.naive import naive, naive_masked, naive_scaled, softmax_rows
from course_lib.attention.online_softmax import OnlineState
from course_lib.attention.tiled import tiled
from course_lib.attention.truth import attention_float64

__all__ = [
    "OnlineState",
    "attention_float64",
    "masks",
    "naive",
    "naive_masked",
    "naive_scaled",
    "softmax_rows",
    "tiled",
]
