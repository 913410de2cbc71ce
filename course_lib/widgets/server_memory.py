"""A server's memory over time, by several policies: who is served, and what is wasted (lesson 12).

Every run is simulated (`course_lib.accounting.serving`), and recorded by `benchmarks/serving.py`
for all places of the three sliders, so that the picture moves without a kernel. A policy of one's
own is simulated when it is handed over. Of a run, each request's moments are kept: what a moment's
memory holds follows from them and from how long the prompts and answers are.

What JavaScript computes too is held against Python in tests/widgets/test_javascript.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import traitlets

from course_lib.accounting.measurements import load_measurements
from course_lib.accounting.serving import Policy, Request, Run, simulate, trace
from course_lib.style.look import styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure
from course_lib.widgets.base import CourseWidget, static_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE_SIZE, ANSWER = 16, 128  # rows of a page; tokens of the longest answer
BUDGET = 256  # tokens of a step where prompts come in chunks
WHOLE = 8192  # and where they come whole
REQUESTS = 60
PLACES = {"pages": (64, 128, 256, 512), "every": (5, 10, 20, 40), "prompt": (128, 384, 896)}
"""Pages of the pool, milliseconds from one request to the next, tokens of the longest prompt."""
OWN = "yours"
WIDE = 21  # of a column of the table
POLICIES = {
    "static batching": "a coach: nobody gets on before the last is off",
    "continuous batching": "a tram: a seat that gets free is taken at once",
    "pages and chunks": "a tram, and each takes only the pages that it fills",
    OWN: "your own policy",
}
RESERVING = ("static batching", "continuous batching")
"""Who sets room aside for as many tokens as a request can have; the others take pages as needed."""
FACTS = (
    ("speed", "", "tokens a second"),
    ("most", "", "served at once, at most"),
    ("wasted", " %", "of the held rows empty"),
    ("wait", " s", "longest first-token wait"),
    ("step", " ms", "longest step for a token"),
    ("out", "", "times thrown out"),
)
"""What a run comes to: a key of `condense`, its unit, and what it is.

The picture says the first and shows what the others come from; they are folded.
"""

Condensed = dict[str, Any]


def places() -> Iterable[tuple[int, ...]]:
    """Return all settings: (pages, every, prompt)."""
    return product(*PLACES.values())


def key(pages: int, every: int, prompt: int) -> str:
    """Return the name under which a run at these settings is kept; `runAt` is its twin."""
    return f"{pages} {every} {prompt}"


def serve(
    policy: Policy, pages: int, every: int, prompt: int, *, budget: int = BUDGET, reserved: int = 0
) -> Condensed:
    """Simulate `REQUESTS` requests at a setting, the same for every policy."""
    run = simulate(
        policy, requests_at(every, prompt), pages=pages, page_size=PAGE_SIZE, budget=budget,
        reserved=reserved,
    )  # fmt: skip
    return condense(run)


@cache
def requests_at(every: int, prompt: int) -> list[Request]:
    """Return the requests at a setting."""
    rng = np.random.default_rng(0)
    return trace(rng, REQUESTS, every=every / 1000, prompts=(16, prompt), outputs=(4, ANSWER))


def serve_everywhere(
    policy_for: Callable[[int], Policy], *, budget: int = BUDGET, reserves: bool = False
) -> dict[str, Condensed]:
    """Return the runs at all settings.

    ``policy_for`` is given the most tokens that a request can have; ``reserves``: room for so many
    is set aside for whoever is admitted.
    """
    runs = {}
    for pages, every, prompt in places():
        most = prompt + ANSWER
        runs[key(pages, every, prompt)] = serve(
            policy_for(most), pages, every, prompt, budget=budget, reserved=most * reserves
        )
    return runs


def condense(run: Run) -> Condensed:
    """Return a run in few numbers: what it comes to, and when what happened to each request.

    ``lanes``: of each request in milliseconds how long it waited, had its prompt computed, was
    answered (as often as it was admitted), and held its memory after that; ``lost``: the rows of
    those thrown out, each time. ``most``: how many were
    served at once at most, ``moment``: in which millisecond that was first so.
    """
    moments = [[round(1000 * at) for at in run.moments[i]] for i in sorted(run.moments)]

    def served(t: int) -> int:
        return sum(in_memory(m, t) and t < m[-2] for m in moments)

    most, first = max((served(t), -t) for m in moments for t in m[1::3])
    return {
        "speed": round(run.tokens_per_second),
        "most": most,
        "moment": -first,
        "seconds": round(run.seconds, 3),
        "wait": round(run.longest_wait, 2),
        "step": round(1000 * max((s.seconds for s in run.steps if s.decode), default=0), 1),
        "wasted": round(100 * run.wasted),
        "out": sum(len(step.preempted) for step in run.steps),
        "lanes": [np.diff(m).tolist() for m in moments],
        "lost": {str(i): list(rows) for i, rows in run.lost.items()},
    }


def in_memory(m: Sequence[int], t: int) -> bool:
    """Say whether a request with these moments (`Run.moments`) has memory at ``t``."""
    return any(m[k] <= t < m[k + (3 if k + 4 == len(m) else 2)] for k in range(1, len(m) - 1, 3))


def memory_at(
    run: Condensed, requests: Sequence[Request], t: int, *, pages: int, reserved: int
) -> list[tuple[int, int, int]]:
    """Return who has memory in a millisecond: (request, rows used, rows held).

    An answer's rows grow evenly between two moments; a prompt has all its rows, or those for which
    answers and older prompts leave pages. `memoryAt` is its twin.
    """
    found, prompts = {}, {}
    for i, (spent, request) in enumerate(zip(run["lanes"], requests, strict=True)):
        m = [int(at) for at in np.cumsum([round(1000 * request.arrival), *spent])]
        if not in_memory(m, t):
            continue
        spell = next(k for k in range(len(m) // 3) if t < m[3 * k + 3] or 3 * k + 5 == len(m))
        _, token, stop = m[3 * spell + 1 : 3 * spell + 4]
        lost = run["lost"].get(str(i), [])
        first = max(request.prompt, *(rows + 1 for rows in lost[:spell]), 0)
        last = [*lost, request.prompt + request.output - 1][spell]
        if t < token:
            prompts[i] = min(first, last)
        elif t < stop:
            found[i] = first + (last - first) * (t - token) // (stop - token)
        else:
            found[i] = 0
    free = pages - sum(-(-max(rows, reserved) // PAGE_SIZE) for rows in found.values())
    for i, rows in prompts.items():
        found[i] = min(rows, max(0, free) * PAGE_SIZE) if not reserved else rows
        free -= -(-found[i] // PAGE_SIZE)
    return [
        (i, found[i], -(-max(found[i], reserved) // PAGE_SIZE) * PAGE_SIZE) for i in sorted(found)
    ]


class ServerMemory(CourseWidget):
    """The same requests and the same memory by several policies: a lane a request, over time.

    Args:
        policy: a policy of one's own, as in 12.3: simulated at all settings (some seconds), it
            gets a lane beside the others.
        **settings: any of the attributes.

    Attributes:
        pages: of 16 rows, in the pool. every: milliseconds from one request to the next, on the
            average. prompt: tokens of the longest prompt. Each is one of `PLACES`.
        at: the millisecond whose memory is drawn; -1: when the fastest policy first serves as many
            as it ever does.

    Raises:
        ValueError: for an unknown setting, or from the simulation of a policy that asks for more
            pages than there are, or gets nowhere. traitlets.TraitError: for another place.
    """

    _esm = static_text("tokens.js", "common.js", "handles.js", "server_memory.js")
    _css = static_text("tokens.css", "common.css", "handles.css", "server_memory.css")
    parts = ("server-lanes",)
    height_px = 880

    pages = traitlets.Int(64).tag(sync=True)
    every = traitlets.Int(20).tag(sync=True)
    prompt = traitlets.Int(128).tag(sync=True)
    at = traitlets.Int(-1).tag(sync=True)
    data = traitlets.Dict().tag(sync=True)

    def __init__(
        self, policy: Policy | None = None, *, presenter: bool = False, **settings: Any
    ) -> None:
        unknown = set(settings) - {*PLACES, "at"}
        if unknown:
            raise ValueError(f"ServerMemory has no setting {sorted(unknown)[0]!r}.")
        lanes = dict(load_measurements("simulated_serving")["rows"])
        if policy is not None:
            lanes[OWN] = serve_everywhere(lambda most: policy)
        super().__init__(
            data={
                "lanes": lanes,
                "places": PLACES,
                "page_size": PAGE_SIZE,
                "requests": {
                    f"{every} {prompt}": [
                        [round(1000 * one.arrival), one.prompt, one.output]
                        for one in requests_at(every, prompt)
                    ]
                    for _, every, prompt in places()
                },
                "answer": ANSWER,
                "policies": POLICIES,
                "reserving": RESERVING,
                "facts": FACTS,
            },
            presenter=presenter,
            **settings,
        )

    @traitlets.validate(*PLACES)
    def _valid_place(self, proposal: Any) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        if value not in PLACES[name]:
            known = ", ".join(map(str, PLACES[name]))
            raise traitlets.TraitError(f"{name} must be one of {known}, got {value}.")
        return value

    def runs(self) -> Mapping[str, Condensed]:
        """Return what every policy makes of the chosen setting, see `condense`."""
        chosen = key(self.pages, self.every, self.prompt)
        return {name: lane[chosen] for name, lane in self.data["lanes"].items()}

    def to_table(self) -> str:
        """Return what the runs come to, as text."""
        runs = self.runs()
        came = requests_at(self.every, self.prompt)[-1].arrival
        lines = [
            f"{REQUESTS} requests, one every {self.every} ms, prompts up to {self.prompt} tokens, "
            f"{self.pages} pages of {PAGE_SIZE} rows; the last comes at {came:.2f} s "
            "(simulated, 8 billion weights on an H100)",
            f"{'':28}" + "".join(f"{name:>{WIDE}}" for name in runs),
        ]
        for fact, unit, what in FACTS:
            values = (f"{run[fact]:g}{unit}" for run in runs.values())
            lines.append(f"  {what:26}" + "".join(f"{value:>{WIDE}}" for value in values))
        return "\n".join(lines)

    @styled
    def to_figure(self) -> Figure:
        """Draw a lane for each request: who waits, and who is served."""
        runs = self.runs()
        came = [r.arrival for r in requests_at(self.every, self.prompt)]
        figure, axes = new_figure(len(runs), 1, figsize=(8, 1.9 * len(runs)), sharex=True)
        for panel, (name, run) in zip(np.atleast_1d(axes), runs.items(), strict=True):
            for i, spent in enumerate(run["lanes"]):
                begins = came[i] + np.cumsum([0, *spent]) / 1000
                for k, (at, long) in enumerate(zip(begins, np.array(spent) / 1000, strict=False)):
                    look = {
                        "facecolor": hex_of("other"),
                        "alpha": 0.25 if k % 3 == 0 and k < len(spent) - 1 else 1,
                    }
                    ended = k == len(spent) - 1
                    panel.broken_barh([(at, long)], (i + 0.3, 0.2) if ended else (i, 0.8), **look)
            panel.set(ylim=(len(came), 0), ylabel="requests", yticks=[])
            panel.set_title(f"{name}: {run['speed']:,} tokens a second", loc="left")
        np.atleast_1d(axes)[-1].set_xlabel(
            "seconds, by the cost model; pale: waits, thin: has ended"
        )
        return figure
