"""What an exercise is: facts, three small functions, and the mistakes people make in it.

``cases`` draws inputs, ``truth`` knows the right answer, ``judge`` compares the two. A check runs
the student's function on each case and stops at the first finding; only then are the known
``mistakes`` run on the same input, to see whose answer the student's looks like.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, Protocol

from course_lib import lessons
from course_lib.judging.as_meant import as_meant
from course_lib.judging.finding import Finding
from course_lib.lessons import ExerciseFacts

if TYPE_CHECKING:
    from numpy.random import Generator

    from course_lib.judging.load_map import Cut
    from course_lib.judging.origins import Origins
    from course_lib.judging.provenance import Provenance

Kind = Literal["question", "python", "torch", "kernel"]
# What hard cases show. Each exercise draws them all (`judging/cases.py`), or says why it does not.
JUMPS = "scores that jump within a tile, and rows of zeros"
FAR = "scores far below any number that stands for -inf"
REMAINDER = "one more than whole tiles"
HARD = frozenset({JUMPS, FAR, REMAINDER})
UNDEFINED = "gives every lane a value"  # the property of a kernel that loads undefined lanes
NUMPY_ONLY = "is written in NumPy"  # the property of a function that PyTorch does no work for
STORED = "stores every row"  # the property of a kernel that leaves memory unwritten


@dataclass(frozen=True)
class Case:
    """One input on which the student's function is run.

    ``name`` is read by the student ("N = 37 in tiles of 16: the last tile is short").
    ``blind_to`` names the null models that happen to be right here (with one key, mean(V) is).
    ``counted`` runs the case under a ledger, so that ``judge`` sees its memory traffic.
    ``compiled`` compiles the kernel for a GPU (sm_80) with this case's types, after all passed.
    ``shows``: which of `HARD` this case is. ``together``: the places of inputs that belong
    to each other (an lse to its scores), and make no sense if they are changed apart.
    ``refused`` says why a kernel is not to be built for this case: its ``tl.static_assert`` stops
    it, and nothing comes back to be judged. ``rewritten``: the function was called before, with
    other numbers in the same arrays.
    """

    name: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    blind_to: frozenset[str] = frozenset()
    counted: bool = False
    compiled: bool = False
    shows: frozenset[str] = frozenset()
    together: frozenset[int] = frozenset()
    refused: str = ""
    rewritten: bool = False

    @property
    def calls(self) -> int:
        """How often the function is called for it, each time with the seconds of one call."""
        return 2 if self.rewritten else 1

    def phases(self, later: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the arguments of the call, and the last ``later`` of them, which come after."""
        first = len(self.args) - later
        return self.args[:first], self.args[first:]


@dataclass(frozen=True)
class Observed:
    """What running the student's function on one case gave.

    ``ledger`` is a KernelLedger for kernels, an EagerLedger for counted PyTorch cases, the
    FlatMemory of lesson 04's programs, else None. ``allocated`` is the most memory, in bytes,
    that a counted kernel's launcher held at once beyond its inputs. ``provenance`` knows which
    numbers its launches were given and wrote, ``origins`` which inputs they were given, where
    that was watched.
    """

    result: Any
    ledger: Any = None
    allocated: int | None = None
    provenance: Provenance | None = None
    origins: Origins | None = None


@dataclass(frozen=True)
class Mistake:
    """A known mistake: its name, what to tell the student, and code that makes it.

    ``model`` takes the case's arguments and returns what someone with this mistake gets. It is
    plain NumPy (or a plain value), run only after a failure. What wrong numbers tell themselves
    has none.
    """

    name: str
    says: str
    model: Callable[..., Any] = lambda *_args, **_kwargs: None

    @classmethod
    def table(cls, *rows: tuple[Any, ...]) -> tuple[Mistake, ...]:
        """Return the mistakes of a table, whose rows are (name, what to tell, *models)."""
        return tuple(cls(*one) for one in table(*rows))


def table(*rows: tuple[Any, ...]) -> tuple[tuple[str, str, Any], ...]:
    """Return (name, what to tell, way) for each way of rows (name, what to tell, *ways)."""
    return tuple((name, says, way) for name, says, *ways in rows for way in ways)


class Subject(Protocol):
    """What an exercise's ``play`` holds in its hands: a function, a class or an object of theirs.

    ``play(subject, case)`` runs beside the judge, wherever the student's code runs, and returns
    the result to be judged. So it may draw one input after it has seen the answer to another.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it and return what it returns."""
        ...

    def make(self, *args: Any, **kwargs: Any) -> Subject:
        """Call it (a class, most often) and keep what it returns where it is: a new subject."""
        ...

    def method(self, name: str) -> Subject:
        """Return the method of that name."""
        ...

    def together(self, *calls: tuple[Any, ...]) -> list[Any]:
        """Make several calls at once, one for each tuple of arguments: ranks that exchange."""
        ...


@dataclass(frozen=True, kw_only=True)
class Exercise(ExerciseFacts):
    """One exercise: what people are told of it, and what computes.

    ``run`` calls the function in its own process, beside it (to measure memory, say); ``play``
    uses it from where answers are judged. ``later``: so many of a case's last arguments are kept
    back until ``run``, a generator then, has yielded a first answer (a gradient, until o is known);
    they are sent into it, and the result is the first answer with what it returns behind it.
    ``compared(case, result)`` is what of a result is held against what mistakes make.
    ``spared``: those of `HARD` that its cases leave out, each with the reason. ``cuts(case)``: how
    the inputs of a kernel are cut into tiles, by name, so that its loads can be drawn.
    ``inputs(case)``: what is shown of a case by name, where ``run`` calls with other arguments.
    """

    cases: Callable[[Generator], Sequence[Case]]
    truth: Callable[..., Any]
    judge: Callable[[Case, Observed, Any], Finding | None]
    kind: Kind = "python"
    run: Callable[[Callable[..., Any], Case], Any] | None = None  # how to call it, if unusual
    play: Callable[[Subject, Case], Any] | None = None  # how to use it, if one call is not enough
    without_torch: bool = False  # graded, its function must be as right where there is no PyTorch
    later: int = 0  # arguments that come after a first answer
    races: bool = False  # its kernels are watched for races in every case
    answer: Callable[[Any], Any] = lambda truth: truth  # the part of the truth that is returned
    compared: Callable[[Case, Any], Any] = lambda case, result: result
    mistakes: tuple[Mistake, ...] = ()
    spared: Mapping[str, str] = field(default_factory=dict, hash=False)
    cuts: Callable[[Case], Mapping[str, Cut]] | None = None
    inputs: Callable[[Case], Mapping[str, Any]] | None = None
    seconds: float = 20.0  # an endless loop is stopped after this long, per case

    @classmethod
    def of(cls, id: str, **computed: Any) -> Exercise:
        """Return the exercise whose facts ``lesson.toml`` holds under ``id``."""
        return cls(**vars(lessons.find(id)), **computed)

    def watches_races(self, case: Case) -> bool:
        """Return whether kernels are watched for races: all are, where cases are small."""
        return self.races or not case.counted

    def names(self, case: Case) -> list[str]:
        """Return what a case's inputs are called: as in the task, what comes later as in truth."""
        first, later = case.phases(self.later)
        names = re.findall(r"\w+", self.signature)[: len(first)]
        return [*names, *list(signature(self.truth).parameters)[len(first) :]] if later else names

    def judged(
        self, case: Case, given: Case, observed: Observed
    ) -> tuple[Finding | None, Observed, Any]:
        """Return what is wrong, what was observed in the form that was asked for, and the truth.

        ``given`` is the case as the function got it.
        """
        expected = self.truth(*case.args, **case.kwargs)
        observed = replace(observed, result=as_meant(observed.result, self.answer(expected)))
        return self.finding(given, observed, expected), observed, expected

    def finding(self, case: Case, observed: Observed, expected: Any) -> Finding | None:
        """Return what ``judge`` says, or else that the numbers are not the student's own.

        A result that a judge never expected, and that makes it raise, is a finding, too.
        """
        try:
            found = self.judge(case, observed, expected)
            if found is None and observed.provenance is not None:
                return observed.provenance.finding(observed.result)
            return found
        except MemoryError:  # of this process, whose limits are not the student's
            raise
        except Exception as error:
            says = f"your result cannot be compared with the right one ({type(error).__name__})."
            return Finding("the form", says)
