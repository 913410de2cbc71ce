"""What a report asks about addresses that leave their tensor: about the mask last."""

import numpy as np
import pytest
import torch

from course_lib.accounting.guard_band import View
from course_lib.accounting.outside import Access, where_to_look

ROW = torch.zeros(24)
ASKED = {  # tensor, first element, mask lets through, what is asked
    "a column too many": (ROW, 8, None, "is one of these addresses worked out wrongly? If none is"),
    "the mask ends late": (ROW, 8, 18, "which of them is the mask to leave out"),
    "all of them": (ROW, 24, None, "all of them lie outside: how is the first one worked out"),
    "all that the mask lets through": (ROW, 24, 8, "and does this program need them?"),
    "strides of 0": (torch.zeros(1).expand(24), 8, None, "use the strides that it has"),
}


@pytest.mark.parametrize("name", ASKED)
def test_an_address_may_be_wrong_where_a_mask_is_not(name):
    """Of 28 wrong causes in a trial six were masks, where strides or a start were wrong."""
    tensor, first, lets, asked = ASKED[name]
    view = View.of("x", tensor)
    ptrs = view.lo + view.itemsize * np.arange(first, first + 32)
    access = Access(ptrs, None if lets is None else np.arange(32) < lets)
    outside = ptrs[access.lanes][~view.holds(ptrs[access.lanes], view.itemsize)]
    assert asked in where_to_look(view, outside, access, (0, 0, 0))
