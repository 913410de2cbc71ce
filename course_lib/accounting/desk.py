"""A desk on which arrays lie one part at a time: exercises of lessons 03 and 04 count with it.

Whoever holds a NumPy array can read it as often as they like, and nobody sees it. On the desk each
array has one `Place`. Taking a part (a pile, a tile) lays a copy of it there, a plain NumPy array,
and clears the part before: its numbers become NaN. So whoever needs a part again takes it again,
and that is counted. Taking what lies there already is no new visit. Of two lists that belong to
each other (piles and values), a part of the second is gone for good once its part of the first has
left: taken again it still has its shape, and no numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

# What only chooses and orders elements reads none of them, nor do questions about shape and type.
_CHOOSE = {
    "T", "mT", "real", "reshape", "swapaxes", "transpose", "squeeze", "take", "ravel", "view",
    "array_split", "split", "vsplit", "hsplit", "expand_dims", "moveaxis", "rollaxis",
    "matrix_transpose", "permute_dims", "atleast_1d", "atleast_2d", "atleast_3d", "flip",
    "flipud", "fliplr"
}  # fmt: skip
_ASK = {
    "empty_like", "full_like", "ones_like", "zeros_like", "ndim", "shape", "size",
    "result_type", "min_scalar_type", "can_cast", "common_type", "iscomplexobj", "isrealobj",
    "may_share_memory", "shares_memory"
}  # fmt: skip
_CHANGE = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"}
_STAYS = "the list of piles is an input, and stays as it is; piles{} would change it."
_FACTS = {"shape", "ndim", "size", "dtype", "nbytes", "strides", "itemsize", "flags"}
_COUNTS = ("visits", "tallest", "nothing", "made_whole")
_MOST_ROWS = 1 << 20  # of one array, in books that come from another process


class Place:
    """The place of one array on the desk, and its books.

    Attributes:
        times: (rows,) how often each row (of a list of piles: each pile) was taken.
        visits: how often something was taken.
        tallest: the most rows that were taken at once.
        nothing: how often a part without any row was taken: one past the end.
        made_whole: how often NumPy was asked for an array of all that a name stands for.
        reach: (height,) of what was taken from each row of a matrix on, the last row; -1: nothing.
    """

    def __init__(
        self, rows: int, *, height: int = 0, clears: bool = True, beside: Place | None = None
    ) -> None:
        self.times = np.zeros(rows, dtype=np.int64)
        self.visits = self.tallest = self.nothing = self.made_whole = 0
        self.reach = np.full(height or rows, -1, dtype=np.int64)
        self._clears, self._beside = clears, beside
        self._what: Any  # what lies there, the part of the array that it is a copy of, the copy
        self._part: Any
        self._lent: Any
        self._forget()

    def take(self, part: Any, what: NDArray[np.int64], rows: NDArray[np.int64]) -> Any:
        """Return a copy of ``part``, good until the next one is taken.

        Args:
            part: some of the array.
            what: numbers of the elements in ``part``.
            rows: numbers of the rows to which they belong, each once.
        """
        if not what.size:
            self.nothing += 1
            return np.array(part)
        if not np.array_equal(what, self._what):
            self.clear()
            self._part, self._lent, self._what = np.asarray(part), np.array(part), what
            if self._clears and self._is_gone(what):
                self._lent.fill(np.nan)
                self._part = self._lent.copy()  # nothing of this reaches the array
            self.times[rows] += 1
            self.visits += 1
            self.tallest = max(self.tallest, rows.size)
            among = rows % self.reach.size
            first = among.min()
            self.reach[first] = max(self.reach[first], among.max())
        return self._lent[...] if self._lent.ndim else self._lent[()]

    def _is_gone(self, what: NDArray[np.int64]) -> bool:
        first = self._beside
        if first is None or not self.times[what].all() or not first.times[what].all():
            return False
        return not np.array_equal(what, first._what)

    def clear(self) -> None:
        """Take back what lies there; what was written into it reaches the array, as in NumPy."""
        self._part[...] = self._lent
        if self._clears and self._lent.dtype.kind == "f":
            self._lent.fill(np.nan)
        self._forget()

    def _forget(self) -> None:
        self._what = self._part = self._lent = np.zeros(0)


class Piles(Sequence[Any]):
    """A list of arrays that come to the desk one at a time; a slice of it reads nothing yet."""

    def __init__(self, piles: Sequence[Any], place: Place, numbers: range | None = None) -> None:
        self._piles, self._place = piles, place
        self._numbers = range(len(piles)) if numbers is None else numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, j: Any) -> Any:
        try:
            found = self._numbers[j]
        except IndexError:
            raise IndexError(f"there is no pile {j}: there are {len(self)}.") from None
        if isinstance(found, range):
            return Piles(self._piles, self._place, found)
        number = np.array([found])
        return self._place.take(self._piles[found], number, number)

    def __getattr__(self, name: str) -> Any:
        if name in _CHANGE:
            raise TypeError(_STAYS.format(f".{name}()"))
        raise AttributeError(f"a list of piles has no attribute {name!r}")

    def __setitem__(self, j: Any, pile: Any) -> None:
        raise TypeError(_STAYS.format("[j] = ..."))

    def __delitem__(self, j: Any) -> None:
        raise TypeError(_STAYS.format("[j], deleted"))

    def copy(self) -> Piles:
        """Return the same piles once more; like a slice, this reads nothing."""
        return self[:]

    def __repr__(self) -> str:
        return f"<{len(self)} piles, one at a time>"


class Rows(NDArrayOperatorsMixin):
    """An array whose rows come to the desk tile by tile; used as a whole, all of it is taken.

    The matrix of a head, ``k[head]``, is such an array itself: to choose it reads nothing.

    ``numbers``: those of the elements of ``array``, whose rows have ``width`` elements.
    """

    __slots__ = ("_array", "_numbers", "_place", "_width")  # small: there may be one for each tile

    def __init__(
        self, array: Any, place: Place, width: int, numbers: NDArray[np.int64] | None = None
    ) -> None:
        self._array, self._place, self._width = array, place, width
        self._numbers = np.arange(array.size).reshape(array.shape) if numbers is None else numbers

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, index: Any) -> Any:
        what = np.asarray(self._numbers[index])
        if _is_choice(index, self.ndim - 2):
            return Rows(self._array[index], self._place, self._width, what)
        return self._place.take(self._array[index], what, np.unique(what // self._width))

    def __setitem__(self, index: Any, value: Any) -> None:
        self._place.clear()
        self._array[index] = value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        self._place.made_whole += 1
        return np.asarray(self[...], dtype=dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out", ())
        if not any(isinstance(x, Rows) for x in out):
            return getattr(ufunc, method)(*map(_whole, args), **kwargs)
        made = getattr(ufunc, method)(*map(_whole, args), **{**kwargs, "out": None})
        out[0][...] = made  # k /= 2: an input is changed, and that is what is said of it
        return out[0]

    def __array_function__(self, function: Any, _types: Any, args: Any, kwargs: Any) -> Any:
        if function.__name__ in _CHOOSE and args and args[0] is self:
            out = kwargs.pop("out", None)
            return self._chosen(lambda x: function(x, *args[1:], **kwargs), out)
        held = _nothing if function.__name__ in _ASK else _whole
        return function(*map(held, args), **{k: held(v) for k, v in kwargs.items()})

    def __getattr__(self, name: str) -> Any:
        # asked before there is an array (copies, pickles), or for what would lead past the desk
        if name.startswith("_") or name == "base":
            raise AttributeError(name)
        found = getattr(self._array, name)
        if name in _FACTS:
            return found
        if name in _CHOOSE and not callable(found):
            return self._chosen(lambda x: getattr(x, name))
        if not callable(found):
            return getattr(self[...], name)

        def method(*how: Any, **named: Any) -> Any:
            if name in _CHOOSE and not (name == "view" and (how or named)):
                out = named.pop("out", None)
                return self._chosen(lambda x: getattr(x, name)(*how, **named), out)
            return getattr(self[...], name)(*map(_whole, how), **named)

        return method

    def _chosen(self, choose: Any, out: Any = None) -> Any:
        """Return what a function chooses, unread: of the numbers it chooses the same. With ``out``
        it is read at once, into that."""
        chosen = choose(self._array), choose(self._numbers)
        if not isinstance(chosen[0], list | tuple):
            found = Rows(chosen[0], self._place, self._width, chosen[1])
            if out is None:
                return found
            out[...] = found[...]
            return out
        return [Rows(x, self._place, self._width, n) for x, n in zip(*chosen, strict=True)]

    def __repr__(self) -> str:
        return f"<an array of shape {self.shape}, tile by tile>"


def _is_choice(index: Any, most: int) -> bool:
    """Return whether an index has whole numbers and slices only, for the first axes, ``most``."""
    parts = index if isinstance(index, tuple) else (index,)
    return len(parts) <= most and all(isinstance(i, int | np.integer | slice) for i in parts)


def _whole(x: Any) -> Any:
    """Return ``x`` with the arrays in it taken whole."""
    if isinstance(x, list | tuple):
        return type(x)(map(_whole, x))
    return np.asarray(x) if isinstance(x, Rows) else x


def _nothing(x: Any) -> Any:
    """Return ``x`` with other arrays of the same shapes and types in place of its own."""
    if isinstance(x, list | tuple):
        return type(x)(map(_nothing, x))
    return np.broadcast_to(np.zeros((), x.dtype), x.shape) if isinstance(x, Rows) else x


def unwrapped(x: Any) -> Any:
    """Return the array that ``x`` stands for, ``x`` itself if it stands for none."""
    return x._array if isinstance(x, Rows) else x


class Desk:
    """What lies on the desk, and the books of a call that worked there.

    Attributes:
        places: by name of the array.
        peak: the most new memory in bytes that was held at once; None where it was not measured.
        stale: whether NaN came out, and what was judged comes from a desk that clears nothing.
    """

    def __init__(self, *, clears: bool = True) -> None:
        self.places: dict[str, Place] = {}
        self.peak: int | None = None
        self.stale = False
        self._clears = clears

    def lay(self, name: str, data: Any) -> Piles | Rows:
        """Return what stands for an array, or for a list of them, from now on."""
        if isinstance(data, list):
            first = next((p for p in self.places.values() if p.times.size == len(data)), None)
            place = Place(len(data), clears=self._clears, beside=first)
            self.places[name] = place
            return Piles(data, place)
        width = data.shape[-1]
        rows = data.size // width
        self.places[name] = Place(rows, height=data.shape[-2], clears=self._clears)
        return Rows(data, self.places[name], width)

    def to_plain(self) -> dict[str, Any]:
        """Return the books as plain data, for another process; `from_plain` reads them."""
        places = {
            name: {
                "times": p.times,
                "reach": p.reach,
                **{count: getattr(p, count) for count in _COUNTS},
            }
            for name, p in self.places.items()
        }
        return {"kind": "desk", "places": places, "peak": self.peak, "stale": self.stale}

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Desk:
        """Return the books that `to_plain` described. Raises something if these are none."""
        desk = cls()
        for name, books in data["places"].items():
            place = desk.places[str(name)] = Place(0)
            for one in ("times", "reach"):
                row = np.asarray(books[one], dtype=np.int64)
                if row.ndim != 1 or row.size > _MOST_ROWS:
                    raise ValueError(f"the books of {name!r} are no row of numbers.")
                setattr(place, one, row)
            for count in _COUNTS:
                setattr(place, count, operator.index(books[count]))
        desk.peak = None if data["peak"] is None else operator.index(data["peak"])
        desk.stale = bool(data["stale"])
        return desk
