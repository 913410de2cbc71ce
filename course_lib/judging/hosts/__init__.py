"""Where a student's function runs: in this process, in an interpreted child, in the sandbox.

The engine asks a `Host` to run a case and judges what it hands back. What differs from place to
place (time limits, how a launch is watched, who may be trusted) is known here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from course_lib.child.student_error import Failure
from course_lib.judging.finding import Finding
from course_lib.judging.spec import Case, Observed

_ALSO_COMPARED = 3  # cases whose launches are, beside those that are compiled


@dataclass(frozen=True)
class Ran:
    """What a host brings back from one case: what was observed there, or the failure instead.

    ``given`` is the case as the function got it (on a GPU its tensors lie there). ``found`` is
    what is wrong whatever the numbers are: a changed input, say. After a ``fatal`` one there is
    nobody left to run another case. ``claimed``: the failure is what a student's process says of
    itself, and nobody else has seen it.
    """

    given: Case
    observed: Observed | None = None
    failure: Failure | None = None
    found: Finding | None = None
    fatal: bool = False
    claimed: bool = False


class Host(Protocol):
    """Runs one student's function, class or object on one case after the other."""

    def run(self, case: Case) -> Ran:
        """Run one case. Raises InfrastructureError if the fault is the machine's."""
        ...

    def doubt(self, case: Case, observed: Observed, expected: Any) -> Finding | None:
        """Say what speaks against an answer that was judged right, None if nothing does.

        ``expected`` is the truth of the case.
        """
        ...

    def afresh(self, case: Case) -> Ran | None:
        """Run one case where no call came before it; None if there is no such place."""
        ...


def compared(cases: Sequence[Case], rng: np.random.Generator) -> set[str]:
    """Return the names of the cases whose launches are also run as compiled: ``rng`` draws some."""
    others = [case.name for case in cases if not case.compiled]
    drawn = rng.permutation(others)[:_ALSO_COMPARED]
    return {case.name for case in cases if case.compiled}.union(drawn.tolist())
