"""Which addresses do several programs touch, so that the answer depends on their order?

The interpreter runs programs one after the other, which hides races: on a GPU all of them may
run at once, in any order. Here the loads and stores of a launch are looked at address by address.
An address is *raced for* if one program changes it and another touches it, unless both do so
atomically or both only load. Atomics alone may race as well, where a program uses what one of them
returned in the next, and so may a load of what is only ever compared and swapped: so such launches
are done again in other orders (`interleaving`), and must leave the same numbers behind. (Of a
thousand programs at most: an exercise has smaller cases.)
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from copy import copy, deepcopy
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from course_lib.accounting.interleaving import Interleaved, Program, Stuck, orders
from course_lib.accounting.kernel_ledger import KernelLedger

_MANY = 64  # accesses of a program that are kept apart
_MOST_PROGRAMS = 1024  # of a launch that is done again in other orders: it takes as long each time
_NEAR, _NEAR_AS_INTEGERS = 1e-4, 1e-5  # integers may be the bits of a float32


NO_LOCKS = (
    "a lock of your own is not taken: whether it holds depends on barriers and on when a GPU shows "
    "one program the stores of another, and that cannot be tried here; add in one atomic step"
)

READ = (
    "every change is atomic, but a plain load reads it in between, and may see an old number: read "
    "it in an atomic step as well, tl.atomic_add(pointer, 0.0). Who compares and swaps tries again "
    "until it succeeds"
)


class Race(NamedTuple):
    """One tensor for which programs of one launch race.

    ``addresses`` is how many of its elements are raced for, ``programs`` two of the programs,
    ``others`` how many more there are, where that is known.
    ``atomic``: each access is atomic, but not what a program does from one to the next.
    ``locked``: it is not, but both programs did something atomic to one other address.
    ``read``: what changes it is atomic, and only what reads it is not; or what compares and swaps
    takes the number from a plain load each time, which never ends where a cache keeps an old one
    (seen on an H200, 4,096 programs).
    """

    kernel: str
    tensor: str
    addresses: int
    programs: tuple[Program, Program]
    atomic: bool = False
    locked: bool = False
    read: bool = False
    others: int = 0

    def __str__(self) -> str:
        who = [str(p[0] if p[1:] == (0, 0) else p) for p in self.programs]
        who += [f"{self.others} more"] if self.others else []
        what = "element" if self.addresses == 1 else "elements"
        return (
            f"{self.kernel}: programs {', '.join(who[:-1])} and {who[-1]} race for "
            f"{self.addresses} {what} of `{self.tensor}`"
            + (": one may come between two steps of the other" if self.atomic else "")
            + (f" ({NO_LOCKS})" if self.locked else "")
            + (f" ({READ})" if self.read else "")
        )


class RaceLedger(KernelLedger):
    """A `KernelLedger` that also lists the `races` of every launch. Same errors.

    Example:
        >>> with RaceLedger() as ledger:
        ...     total(x)
        >>> print(*ledger.races, sep="\\n")  # doctest: +SKIP
        total_kernel: programs 0, 1 and 2 more race for 1 element of `out`
    """

    def __init__(self) -> None:
        super().__init__()
        self.races: list[Race] = []
        # "load", "store", "atomic", "swap" -> program -> addresses; of the current launch
        self._touched: dict[str, dict[Program, list[np.ndarray]]] = {}
        self._steps: dict[int, Counter[Program]] = {}  # address -> how many atomics of each program
        self._trial: Interleaved | None = None  # while the launch is done again
        self._contended: set[int] = set()
        # how often a program of a trial loads such an address, its own cache may keep an old number
        self._looked: Counter[tuple[Program, int]] = Counter()
        self._twins: dict[str, Any] = {}  # parameter name -> the tensor that the kernel changes

    def launch(self, executor: Any, args: tuple, kwargs: dict, run: Callable) -> Any:
        """Run one launch and judge its accesses, all programs taken together."""
        self._touched = {"load": {}, "store": {}, "atomic": {}, "swap": {}}
        self._steps = {}

        def run_and_judge(executor: Any, /, *args: Any, **kwargs: Any) -> Any:
            copies = list(self._copies.values())
            before = [guarded.copy.clone() for guarded in copies]
            result = run(executor, *args, **kwargs)
            found = self._judge(executor.fn.__name__)
            self._contended = {at for at, steps in self._steps.items() if len(steps) > 1}
            many = prod(self.launches[-1].grid) > _MOST_PROGRAMS
            if self._contended and not found and not many:
                after = [guarded.copy.clone() for guarded in copies]
                again = _Again(copies, before, lambda: run(executor, *args, **kwargs))
                self._interleave(executor, again)
                again.put(after)
            return result

        return super().launch(executor, args, kwargs, run_and_judge)

    def _meet(self, kind: str, addresses: np.ndarray) -> None:
        """Remember who touched which address; when done again, let others come in between."""
        program = self._hooks.program()
        if self._trial:
            if met := self._contended.intersection(addresses.tolist()):
                self._looked.update((program, at) for at in met if kind == "load")
                self._trial.before_contended(program)
            return
        mine = self._touched[kind].setdefault(program, [])
        mine.append(addresses)
        if len(mine) > _MANY:  # a loop without end is to fill no memory
            mine[:] = [np.unique(np.concatenate(mine))]
        if kind in ("atomic", "swap"):
            for address in set(addresses.tolist()):
                self._steps.setdefault(address, Counter())[program] += 1

    def _enter_launch(self, tensors: dict[str, Any]) -> None:
        super()._enter_launch(tensors)
        self._twins = {name: self._owner[name].rebuild(t) for name, t in tensors.items()}

    def _judge(self, kernel: str) -> bool:
        """Note the races of a launch; return whether there are any."""
        raced: dict[str, list[tuple[Program, Program]]] = {}
        racing: dict[str, set[Program]] = {}
        at: set[int] = set()
        load, store, atomic, swap = self._met_by_several()
        for address in swap.keys() & load.keys():  # a swap finds out whether the number is old
            self._steps[address].update(load[address])
        for address in sorted(store.keys() | (atomic.keys() & load.keys())):
            plain = load.get(address, set()) | store.get(address, set())
            changers = set().union(*(of.get(address, set()) for of in (store, atomic, swap)))
            pairs = ((a, b) for a in sorted(plain) for b in sorted(changers) if a != b)
            if pair := next(pairs, None):
                name = self._owner_of(address)
                raced.setdefault(name, []).append((min(pair), max(pair)))
                racing.setdefault(name, set()).update(plain | changers)
                at.add(address)
        stored = {self._owner_of(address) for address in at & store.keys()}
        self.races += [
            Race(
                kernel,
                name,
                len(pairs),
                min(pairs),
                locked=self._share_an_atomic(min(pairs), at),
                read=name not in stored,
                others=len(racing[name]) - 2,
            )
            for name, pairs in raced.items()
        ]
        return bool(raced)

    def _met_by_several(self) -> list[dict[int, set[Program]]]:
        """Return who loads, who stores to and who changes atomically, address by address, those
        which one program changes and another touches: there are few."""
        accesses = [
            (kind, program, addresses)
            for kind, programs in self._touched.items()
            for program, parts in programs.items()
            for addresses in parts
        ]
        met = _met_by_several(accesses)
        touched: dict[str, dict[int, set[Program]]] = {kind: {} for kind in self._touched}
        if met.size:
            for kind, program, addresses in accesses:
                for address in np.intersect1d(addresses, met).tolist():
                    touched[kind].setdefault(address, set()).add(program)
        return list(touched.values())

    def _share_an_atomic(self, pair: tuple[Program, Program], raced: set[int]) -> bool:
        """Whether two programs did something atomic to an address that is not raced for."""
        return any(
            all(program in steps for program in pair)
            for address, steps in self._steps.items()
            if address not in raced
        )

    def _interleave(self, executor: Any, again: _Again) -> None:
        """Do a launch again in other orders, off the books; note a race if one matters."""
        sizes = (*self.launches[-1].grid, 1, 1)[:3]
        programs = [(x, y, z) for x, y, z in product(*map(range, sizes))]
        steps: Counter[Program] = Counter()
        for address in self._contended:
            steps |= self._steps[address]
        right, function = self._contents(), executor.fn
        books = {k: copy(v) for k, v in vars(self).items() if isinstance(v, dict | list | int)}
        books["launches"] = [*self.launches[:-1], deepcopy(self.launches[-1])]
        # the same numbers are tried in the same orders, so that a verdict stays; nobody knows them
        rng = random.Random(b"".join(numbers.tobytes() for numbers in right.values()))
        for first, gap in orders(steps, programs[-1], rng):
            self._trial = Interleaved(function, programs, (first, gap), self._hooks.go_to)
            executor.fn, read = self._trial, False
            try:
                again.run()
                differs = self._difference(right)
                read = not differs and max(self._looked.values(), default=0) > 1
            except Exception as error:  # in another order it may leave its tensors
                stuck = self._hooks.original_cause(error, Stuck) is not None
                differs = None if stuck else self._owner_of(min(self._contended))
            finally:
                executor.fn, self._trial = function, None
                vars(self).update({name: copy(value) for name, value in books.items()})
                self.launches[-1] = deepcopy(self.launches[-1])
            if differs or read:
                other = next(program for program in steps if program != first)
                pair = min(first, other), max(first, other)
                name = differs or self._owner_of(min(self._contended))
                race = Race(function.__name__, name, 1, pair, atomic=not read, read=read)
                self.races.append(race)
                return

    def _owner_of(self, address: int) -> str:
        return next(v.name for v in self._views if v.holds(np.array([address]), 1).all())

    def _contents(self) -> dict[str, np.ndarray]:
        """Return the numbers of each tensor, sorted: who gets which place may depend on order."""
        return {name: np.sort(x.double().numpy(), axis=None) for name, x in self._twins.items()}

    def _difference(self, right: dict[str, np.ndarray]) -> str | None:
        """Return the name of the first tensor that holds other numbers, None if there is none."""
        for name, numbers in self._contents().items():
            near = _NEAR if self._twins[name].is_floating_point() else _NEAR_AS_INTEGERS
            wanted = right[name]
            room = near * np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0)
            if not np.allclose(numbers, wanted, rtol=near, atol=room, equal_nan=True):
                return name
        return None


def _met_by_several(accesses: list[tuple[str, Program, np.ndarray]]) -> np.ndarray:
    """Return the addresses which one program changes and another touches, sorted."""
    changes = [addresses for kind, _, addresses in accesses if kind != "load"]
    changed = np.sort(np.concatenate([np.empty(0, np.uint64), *changes]))
    if not changed.size:  # no store at all, or all of them masked
        return changed
    changed = changed[np.append(True, changed[1:] != changed[:-1])]  # 20 times `np.unique`
    numbers: dict[Program, int] = {}
    first, last = np.full(changed.size, len(accesses)), np.full(changed.size, -1)
    for _, program, addresses in accesses:
        number = numbers.setdefault(program, len(numbers))
        at = np.searchsorted(changed, addresses)
        at = at[changed.take(at, mode="clip") == addresses]
        first[at], last[at] = np.minimum(first[at], number), np.maximum(last[at], number)
    return changed[first < last]


class _Again(NamedTuple):
    """What it takes to do a launch again: its memory, what was in there before, and how."""

    copies: list[Any]
    before: list[Any]
    launch: Callable[[], Any]

    def run(self) -> None:
        """Launch from what was there before."""
        self.put(self.before)
        self.launch()

    def put(self, contents: list[Any]) -> None:
        """Write what the memory is to hold."""
        for guarded, content in zip(self.copies, contents, strict=True):
            guarded.copy.copy_(content)
