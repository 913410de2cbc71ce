"""Which addresses do several programs touch, so that the answer depends on their order?

The interpreter runs programs one after the other, which hides races: on a GPU all of them may
run at once, in any order. Here the loads and stores of a launch are looked at address by address.
An address is *raced for* if one program stores to it (not atomically) and another touches it.
Two programs that only load it, or only add to it with `tl.atomic_add`, do not race.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from course_lib.accounting.kernel_ledger import KernelLedger, _unmasked

Program = tuple[int, int, int]


class Race(NamedTuple):
    """One tensor for which programs of one launch race.

    ``addresses`` is how many of its elements are raced for, ``programs`` two of the programs.
    """

    kernel: str
    tensor: str
    addresses: int
    programs: tuple[Program, Program]

    def __str__(self) -> str:
        first, second = (p[0] if p[1:] == (0, 0) else p for p in self.programs)
        what = "element" if self.addresses == 1 else "elements"
        return (
            f"{self.kernel}: programs {first} and {second} race for {self.addresses} {what} "
            f"of `{self.tensor}`"
        )


class RaceLedger(KernelLedger):
    """A `KernelLedger` that also lists the `races` of every launch. Same errors.

    Example:
        >>> with RaceLedger() as ledger:
        ...     total(x)
        >>> print(*ledger.races, sep="\\n")  # doctest: +SKIP
        total_kernel: programs 0 and 1 race for 1 element of `out`
    """

    def __init__(self) -> None:
        super().__init__()
        self.races: list[Race] = []
        # address -> programs that load, store, or change it atomically; of the current launch
        self._touched: dict[str, dict[int, set[Program]]] = {}

    def launch(self, executor: Any, args: tuple, kwargs: dict, run: Callable) -> Any:
        """Run one launch and judge its accesses, all programs taken together."""
        self._touched = {"load": {}, "store": {}, "atomic": {}}

        def run_and_judge(executor: Any, *args: Any, **kwargs: Any) -> Any:
            result = run(executor, *args, **kwargs)
            self._judge(executor.fn.__name__)
            return result

        return super().launch(executor, args, kwargs, run_and_judge)

    def access(self, kind: str, ptrs: np.ndarray, mask: np.ndarray | None, width: int) -> None:
        """Book the access as any ledger does, and remember who touched which address."""
        super().access(kind, ptrs, mask, width)
        program, touched = self._hooks.program(), self._touched[kind]
        for address in np.unique(_unmasked(ptrs, mask)).tolist():
            touched.setdefault(address, set()).add(program)

    def _judge(self, kernel: str) -> None:
        raced: dict[str, list[tuple[Program, Program]]] = {}
        for address, writers in self._touched["store"].items():
            others = writers.union(
                self._touched["load"].get(address, ()), self._touched["atomic"].get(address, ())
            )
            if len(others) > 1:
                writer = min(writers)
                other = min(others - {writer})
                owner = next(v for v in self._views if v.holds(np.array([address]), 1).all())
                pair = (min(writer, other), max(writer, other))
                raced.setdefault(owner.name, []).append(pair)
        self.races += [Race(kernel, name, len(p), p[0]) for name, p in raced.items()]
