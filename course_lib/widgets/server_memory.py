"""A server's memory over time, by several policies: who is served, and what is wasted (lesson 12).

Every run is simulated (`course_lib.accounting.serving`), and recorded by `benchmarks/serving.py`
for all places of the three sliders, so that the picture moves without a kernel. A policy of one's
own is simulated when it is handed over.

What JavaScript computes too is held against Python in tests/widgets/test_javascript.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import traitlets

from course_lib.accounting.measurements import load_measurements
from course_lib.accounting.serving import Policy, Run, simulate, trace
from course_lib.style.look import PAGE_INK, styled
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
BINS = 48  # of a run's time, in which its memory is drawn
OWN = "yours"
WIDE = 21  # of a column of the table
POLICIES = {
    "static batching": (
        "a coach: nobody gets on before the last is off",
        "{most} rows are held for each, as the longest needs",
    ),
    "continuous batching": (
        "a tram: who waits takes any seat that gets free",
        "{most} rows are held for each, as the longest needs",
    ),
    "pages and chunks": (
        "a tram, and each takes only the space that it needs: pages",
        "long prompts are computed in parts",
    ),
    OWN: ("your own policy",),
}
"""What each lane is, in one or two parts; ``{most}``: the most tokens that a request can have."""
FACTS = (
    ("speed", "", "tokens a second"),
    ("wait", " s", "longest first-token wait"),
    ("wasted", " %", "of the held rows empty"),
    ("step", " ms", "longest step for a token"),
    ("out", "", "times thrown out"),
)
"""What a run comes to: a key of `condense`, its unit, and what it is.

The picture says the first and the third, what is folded the others.
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
    rng = np.random.default_rng(0)
    requests = trace(rng, REQUESTS, every=every / 1000, prompts=(16, prompt), outputs=(4, ANSWER))
    run = simulate(
        policy, requests, pages=pages, page_size=PAGE_SIZE, budget=budget, reserved=reserved
    )
    return condense(run, pages * PAGE_SIZE)


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


def condense(run: Run, pool: int) -> Condensed:
    """Return a run in few numbers: its speed, waits and waste, its memory and its queue over time.

    ``needed`` and ``held`` are whole percents of the pool, ``waiting`` is how many requests wait:
    averages over `BINS` equal times. ``last``: when the last request came, got its first token and
    had its answer. ``aboard``: how many the first step began with.
    """
    edges = np.linspace(0, run.seconds, BINS + 1)
    begins = np.array([step.at for step in run.steps])
    lasts = np.diff([*begins, run.seconds])

    def averages(counts: Iterable[int], most: int, whole: int) -> list[int]:
        so_far = np.concatenate([[0], np.cumsum(np.fromiter(counts, float) * lasts)])
        at_edges = np.interp(edges, [*begins, run.seconds], so_far)
        return np.rint(most * np.diff(at_edges) / np.diff(edges) / whole).astype(int).tolist()

    return {
        "speed": round(run.tokens_per_second),
        "seconds": round(run.seconds, 3),
        "wait": round(run.longest_wait, 2),
        "step": round(1000 * max((s.seconds for s in run.steps if s.decode), default=0), 1),
        "wasted": round(100 * run.wasted),
        "out": sum(len(step.preempted) for step in run.steps),
        "needed": averages((step.rows for step in run.steps), 100, pool),
        "held": averages((step.room for step in run.steps), 100, pool),
        "waiting": averages((step.waiting for step in run.steps), 1, 1),
        "last": [round(time, 3) for time in run.last],
        "aboard": run.steps[0].running,
    }


class ServerMemory(CourseWidget):
    """The same requests and the same memory by several policies, over time.

    Args:
        policy: a policy of one's own, as in 12.3: simulated at all settings (some seconds), it
            gets a lane beside the others.
        **settings: any of the attributes.

    Attributes:
        pages: of 16 rows, in the pool. every: milliseconds from one request to the next, on the
            average. prompt: tokens of the longest prompt. Each is one of `PLACES`.

    Raises:
        ValueError: for an unknown setting, or from the simulation of a policy that asks for more
            pages than there are, or gets nowhere. traitlets.TraitError: for another place.
    """

    _esm = static_text("tokens.js", "common.js", "handles.js", "server_memory.js")
    _css = static_text("tokens.css", "common.css", "handles.css", "server_memory.css")
    parts = ("server-lanes",)
    height_px = 810

    pages = traitlets.Int(64).tag(sync=True)
    every = traitlets.Int(20).tag(sync=True)
    prompt = traitlets.Int(128).tag(sync=True)
    data = traitlets.Dict().tag(sync=True)

    def __init__(
        self, policy: Policy | None = None, *, presenter: bool = False, **settings: Any
    ) -> None:
        unknown = set(settings) - set(PLACES)
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
                "requests": REQUESTS,
                "answer": ANSWER,
                "policies": POLICIES,
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
        came = next(iter(runs.values()))["last"][0]
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
        """Draw the memory of each run over time."""
        runs = self.runs()
        figure, axes = new_figure(len(runs), 1, figsize=(8, 1.9 * len(runs)), sharex=True)
        for panel, (name, run) in zip(np.atleast_1d(axes), runs.items(), strict=True):
            edges = np.linspace(0, run["seconds"], BINS + 1)
            panel.stairs(run["held"], edges, baseline=run["needed"], fill=True, facecolor="none",
                         hatch="////", edgecolor=hex_of("other"), linewidth=0)  # fmt: skip
            panel.stairs(run["needed"], edges, fill=True, color=hex_of("flash"))
            panel.axhline(100, color=PAGE_INK, linestyle=":", linewidth=2)
            panel.axvline(run["last"][0], color=PAGE_INK, linestyle="--")  # the last request comes
            panel.set(ylim=(0, 108), ylabel="% of the pool", yticks=[0, 50, 100])
            panel.set_title(f"{name}: {run['speed']:,} tokens a second", loc="left")
        np.atleast_1d(axes)[-1].set_xlabel("seconds, by the cost model")
        return figure
