"""What is wrong with an access that leaves its tensor: the mask, a stride, or the tensor's size.

Told apart by what was measured: the addresses, the mask, and the tensor's own strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from course_lib.accounting.guard_band import View

_TOLD = 3  # places that are named
_HALF_A_MASK = (
    "the mask asks about one axis of the tile only, and an entry is inside if its row exists and "
    "its column exists: (rows[:, None] < n_rows) & (cols[None, :] < n_cols)"
)
_HALF_MOVES = (
    "the mask asks about both axes, and along one of them it leaves nothing out where the tile "
    "ends outside: does it compare the numbers that the addresses are made of? Where a "
    "loop moves the addresses, what is compared must move as well"
)
_EITHER = (
    "the mask lets an entry through whose row or column exists, and an entry is inside if both do: "
    "(rows[:, None] < n_rows) & (cols[None, :] < n_cols), not |"
)


class Access(NamedTuple):
    """The addresses of one load or store, all lanes, and the mask; None: every lane."""

    ptrs: np.ndarray
    mask: np.ndarray | None

    @property
    def lanes(self) -> np.ndarray:
        """Return which lanes are touched, in the shape of the addresses."""
        mask = True if self.mask is None else np.asarray(self.mask).astype(bool, copy=False)
        return np.broadcast_to(mask, self.ptrs.shape)

    def told(self) -> str:
        """Say how many lanes the mask lets through."""
        n, of = int(self.lanes.sum()), self.ptrs.size
        if n == of:
            return f"no mask leaves {'it' if of == 1 else f'any of the {of}'} out"
        return f"the mask lets {n} of {of} addresses through"

    def steps(self) -> list[tuple[int, int]]:
        """Return per axis with several touched lanes (bytes from lane to lane, touched lanes).

        Nothing if the addresses are no regular grid.
        """
        found = []
        for axis, n in enumerate(self.ptrs.shape):
            if n < 2:
                continue
            gaps = np.diff(self.ptrs.astype(np.int64), axis=axis)
            if (gaps != gaps.flat[0]).any():
                return []
            others = tuple(a for a in range(self.ptrs.ndim) if a != axis)
            found.append((int(gaps.flat[0]), int(self.lanes.any(axis=others).sum())))
        return [step for step in found if step[1] > 1]


def told_places(view: View, outside: np.ndarray) -> str:
    """Name a few of the addresses as numbers of elements from the tensor's first; and where those
    between its rows would have to lie."""
    places = np.unique((outside.astype(np.int64) - view.lo) // view.itemsize)
    if _between(view, outside):
        of = _where_it_falls_out(view, int(outside[0]))
        word = "element" if len(places) == 1 else "elements"
        return (
            f": {word} {', '.join(map(str, places[:_TOLD]))}{', ...' * (len(places) > _TOLD)}{of}"
        )
    told = ", ".join(map(str, places[:_TOLD])) + (", ..." if len(places) > _TOLD else "")
    end = (view.hi - view.lo) // view.itemsize - 1
    one = "element" if len(places) == 1 else "elements"
    has = "it has none" if end < 0 else "it has number 0 only" if end == 0 else f"it has 0 to {end}"
    return f": {one} {told}, and {has}"


def _between(view: View, outside: np.ndarray) -> bool:
    """Whether all of these lie between a tensor's first element and its last, in gaps."""
    return bool(((outside >= view.lo) & (outside < view.hi)).all())


def _where_it_falls_out(view: View, address: int) -> str:
    """Say which axis ends before an address between rows, and where the next run begins."""
    left, item, wider = address - view.lo, view.itemsize, 0
    for stride, size, axis in view.axes:
        step, left = divmod(left, stride)
        if step >= size:
            run = f"axis {axis} has {size} entries, {stride // item} apart"
            if not wider:
                return f", and {run}"
            begins = ", ".join(str(i * wider // item) for i in range(_TOLD))
            return f", and {run}; its runs begin at {begins}, ..."
        wider = stride
    begins = ", ".join(str(i * wider // item) for i in range(_TOLD))
    return f", and its elements are {begins}, ..."


def where_to_look(
    view: View,
    outside: np.ndarray,
    access: Access,
    program: tuple[int, ...],
    others: Sequence[View] = (),
) -> str:
    """Return one sentence (no full stop) on what to look at, "" if the numbers do not tell.

    ``others``: the other tensors of the launch.
    """
    name, item = f"`{view.name}`", view.itemsize
    strides = {stride: size for stride, size, _ in view.axes}
    elements = prod(size for _, size, _ in view.axes)
    if access.ptrs.size == 1:
        has = "1 element" if elements == 1 else f"{elements} elements"
        place = (int(outside[0]) - view.lo) // item
        return (
            f"{name} has {has}, and program {program} is at number {place}: is {name} to be "
            "larger, or the address another?"
        )
    if outside.min() < view.lo:
        return f"print the offsets in program {program}: which of them are negative, and why?"
    if view.expanded:
        return (
            f"axis {view.expanded[0]} of {name} has the stride 0, its entries lie on each other: "
            "do these addresses use the strides that it has, or such as its sizes make?"
        )
    steps = access.steps()
    if says := (
        _one_axis_only(view, access) or _one_line_more(outside, access) or _either_axis(access)
    ):
        return says
    if says := _strides_of_another(view, steps, others):
        return says
    strange = [step // item for step, _ in steps if step not in strides]
    if strange and len(view.axes) == view.ndim:  # an axis of length 1 has a stride as well
        own = " and ".join(str(s // item) for s in strides)
        word = "strides" if len(strides) > 1 else "stride"
        return (
            f"from lane to lane these addresses move by {strange[0]}, and {name} has the {word} "
            f"{own}: which stride is meant?{_or_lanes_apart(steps, sorted(strides))}"
        )
    if _between(view, outside):
        item_strides = ", ".join(str(s // item) for s in strides)
        return (
            f"{name} has the strides {item_strides}: is one of them taken for another, or made of "
            "the sizes, in how these addresses are worked out? If not, which of them is the mask "
            f"to leave out in program {program}?"
        )
    if len(outside) == access.ptrs.size:
        return f"all of them lie outside: how is the first one worked out in program {program}?"
    fits = steps and all(n <= strides.get(step, 0) for step, n in steps)
    start = int(access.ptrs[access.lanes].astype(np.int64).min()) - view.lo
    if fits and len(steps) == 1 and len(strides) == 2 and steps[0][1] == strides[steps[0][0]]:
        step, other = steps[0][0], next(s for s in strides if s != steps[0][0])
        if start % other >= step:
            begin = ", ".join(str(row * other // item) for row in range(3))
            return (
                f"the block starts at element {start // item}, and rows of {name} start at "
                f"{begin}, ...: how is its start worked out?"
            )
    if len(outside) == access.lanes.sum():
        return (
            f"all that the mask lets through in program {program} lies outside, from element "
            f"{start // item} on: how is that start worked out, and does this program need them?"
        )
    mask = "a mask" if access.lanes.all() else "the mask"
    return (
        f"is one of these addresses worked out wrongly? If none is, which of them is {mask} to "
        f"leave out in program {program}?"
    )


def _strides_of_another(view: View, steps: list[tuple[int, int]], others: Sequence[View]) -> str:
    """Return what is wrong if a tile moves as only another tensor lies in memory, else ""."""
    moves = {step // view.itemsize for step, _ in steps}
    own = _own_strides(view)
    theirs = [one for one in others if moves <= _own_strides(one)]
    if len(steps) != 2 or len(moves) != 2 or moves & own or not theirs:
        return ""
    told, has = (", ".join(map(str, sorted(x, reverse=True))) for x in (moves, own))
    word = "strides" if len(own) > 1 else "stride"
    return (
        f"from lane to lane these addresses move by {told}, as those of `{theirs[0].name}` do, and "
        f"`{view.name}` has the {word} {has}: each tensor has strides of its own, and one that is "
        "made like another may lie otherwise in memory"
    )


def _own_strides(view: View) -> set[int]:
    return {stride // view.itemsize for stride, _, _ in view.axes}


def _or_lanes_apart(steps: list[tuple[int, int]], strides: list[int]) -> str:
    """Return one more question where lanes may be meant to lie as far apart as they do."""
    pairs = zip(sorted(step for step, _ in steps), strides, strict=False)
    if len(steps) != len(strides) or any(step % stride for step, stride in pairs):
        return ""
    return " If lanes are to lie so far apart, which of these addresses must the mask leave out?"


def _one_line_more(outside: np.ndarray, access: Access) -> str:
    """Return what to ask if the last row or column that the mask lets through is what lies outside,
    else ""."""
    lanes = access.lanes
    if access.mask is None or lanes.all():
        return ""
    out = lanes & np.isin(access.ptrs, outside)
    for axis in range(lanes.ndim):
        touched = np.flatnonzero(lanes.any(axis=tuple(a for a in range(lanes.ndim) if a != axis)))
        last = np.zeros(lanes.shape, bool)
        np.moveaxis(last, axis, 0)[touched[-1:]] = True
        if len(touched) > 1 and (out == (lanes & last)).all():
            line = "address" if lanes.ndim == 1 else "row or column"
            says = f"the last {line} that the mask lets through, and no other, lies outside"
            return f"{says}: is it one too many, as where <= stands for `<`?"
    return ""


def _either_axis(access: Access) -> str:
    """Return what is wrong if the mask leaves out just the lanes past both ends, else ""."""
    left_out = ~access.lanes
    if left_out.ndim != 2 or not left_out.any():
        return ""
    rows, columns = left_out.any(axis=1), left_out.any(axis=0)
    is_corner = not rows.all() and not columns.all() and (left_out == np.outer(rows, columns)).all()
    return _EITHER if is_corner else ""


def _one_axis_only(view: View, access: Access) -> str:
    """Return what is missing if the mask speaks of one axis of a tile, and the tile ends outside
    along the other, else "". A tile may hold every so many-th row or column."""
    lanes = access.lanes
    if lanes.ndim != 2 or len(view.axes) != 2 or lanes.all():
        return ""
    alike = [axis for axis in (0, 1) if (lanes == lanes.take([0], axis)).all()]
    gaps = [abs(int(np.diff(access.ptrs.astype(np.int64), axis=a).max(initial=0))) for a in (0, 1)]
    own = sorted(((stride, size) for stride, size, _ in view.axes), reverse=True)
    order = sorted((0, 1), key=lambda axis: -gaps[axis])  # the longer steps are the longer stride's
    if len(alike) != 1 or any(gaps[a] % s for a, (s, _) in zip(order, own, strict=True)):
        return ""
    left = int(access.ptrs[0, 0]) - view.lo
    for axis, (stride, size) in zip(order, own, strict=True):
        first, left = divmod(left, stride)
        last = first + gaps[axis] // stride * (lanes.shape[axis] - 1)
        if axis == alike[0]:
            half = 0 in np.asarray(access.mask).strides  # a row or column that was broadcast
            return "" if last < size else _HALF_A_MASK if half else _HALF_MOVES
    return ""
