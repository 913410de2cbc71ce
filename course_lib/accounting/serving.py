"""Who goes next? A server of one model, simulated in steps; the clock is a cost model (lesson 12).

A request comes with a prompt and wants an answer whose length nobody knows before it ends. In each
step a policy says how many tokens of which request are computed, and who gives up its pages; then
the step is done, the clock moves by what `Costs` says, and requests that got a token have one more.

What a policy is told of a request is (cached, todo): rows of K and V in its pages, and tokens that
are known and not computed yet. Of a prompt many are, when answering there is one (the token that
came last), and 0 once the answer has ended.

Nothing here is measured. Every length is a number of tokens, every time is in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from numpy.random import Generator

from course_lib.accounting.hardware import gpu

Policy = Callable[..., tuple[Mapping[int, int], Sequence[int]]]
"""``policy(waiting, running, free_pages, *, budget, page_size) -> (compute, leave)``.

waiting: {id: todo}, running: {id: (cached, todo)}, both in the order in which the requests came.
compute: {id: tokens} of this step; who was waiting is thereby admitted. leave: ids whose pages are
free at once; those that have not ended wait again, and begin anew.
"""

MOST_STEPS = 20_000  # of a simulation: a policy that gets nowhere is stopped


@dataclass(frozen=True)
class Request:
    """One request; ids follow the order of arrival, and policies are not told ``output``."""

    id: int
    arrival: float
    prompt: int
    output: int


@dataclass(frozen=True)
class Costs:
    """How long a step takes by the roofline of lesson 02: bytes or FLOPs, whichever takes longer.

    Bytes: all weights once, and each cached row of those that compute, once. FLOPs: 2 for each
    weight and token; those of attention itself, launches and whatever else there is are left out.
    The default is a model of 8 billion weights (32 layers, 8 key heads of 128) on an H100, both
    in bf16, by the vendor's figures.
    """

    gpu: str = "H100"
    weights: float = 8e9
    layers: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    b: int = 2

    @property
    def row_bytes(self) -> int:
        """Bytes of K and V of one token in all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.b

    def seconds(self, tokens: int, rows: int) -> float:
        """Return the length of a step that computes ``tokens`` and reads ``rows`` of the cache."""
        card = gpu(self.gpu)
        n_bytes = self.weights * self.b + rows * self.row_bytes
        flops = 2 * self.weights * tokens
        return max(n_bytes / (card.hbm_gb_per_s * 1e9), flops / (card.tflops_half * 1e12))


@dataclass(frozen=True)
class Step:
    """What happened in one step.

    ``at``: when it began. ``prefill``, ``decode``: tokens computed. ``answered``: tokens that were
    added to answers. ``rows``: rows of K and V of requests that go on; ``room``: rows that the
    pages hold which somebody has, so that ``room - rows`` are wasted. ``waiting``, ``running``: how
    many do. ``preempted``: ids that lost their pages before they had ended.
    """

    at: float
    seconds: float
    prefill: int
    decode: int
    answered: int
    rows: int
    room: int
    waiting: int
    running: int
    preempted: tuple[int, ...] = ()

    @property
    def wasted(self) -> int:
        """Rows that somebody's pages have room for, and that nobody needs."""
        return self.room - self.rows


@dataclass
class _State:
    request: Request
    cached: int = 0
    answered: int = 0
    first: float = float("nan")  # when its first token came

    @property
    def todo(self) -> int:
        """Tokens that are known and not computed; none once the answer has ended."""
        ended = self.answered == self.request.output
        return 0 if ended else self.request.prompt + self.answered - self.cached


@dataclass
class Server:
    """A pool of pages, requests, and a clock. See `simulate` for the arguments."""

    requests: Sequence[Request]
    pages: int
    page_size: int
    costs: Costs = field(default_factory=Costs)
    reserved: int = 0

    def __post_init__(self) -> None:
        self.clock = 0.0
        self.steps: list[Step] = []
        self.finished: dict[int, float] = {}
        self.moments = {r.id: [r.arrival] for r in self.requests}
        self.lost: dict[int, list[int]] = {}
        self._all = {r.id: _State(r) for r in sorted(self.requests, key=lambda r: r.id)}
        self._running: set[int] = set()
        self._await_somebody()

    @property
    def ended(self) -> bool:
        """Whether every request has its answer and has given back its pages."""
        return len(self.finished) == len(self._all)

    @property
    def waiting(self) -> dict[int, int]:
        """Those that have come and are not computed: {id: todo}."""
        return {
            i: state.todo
            for i, state in self._all.items()
            if state.request.arrival <= self.clock
            and i not in self._running
            and i not in self.finished
        }

    @property
    def running(self) -> dict[int, tuple[int, int]]:
        """Those that have pages: {id: (cached, todo)}."""
        return {i: (s.cached, s.todo) for i, s in self._all.items() if i in self._running}

    @property
    def free_pages(self) -> int:
        """Pages that nobody has."""
        return self.pages - sum(self._held(self._all[i]) for i in self._running)

    @property
    def waits(self) -> dict[int, float]:
        """Seconds from the arrival to the first token, of those that have one."""
        return {i: s.first - s.request.arrival for i, s in self._all.items() if s.first == s.first}

    def step(self, compute: Mapping[int, int], leave: Iterable[int] = ()) -> Step:
        """Do one step. Raises ValueError if there are not pages enough."""
        preempted = tuple(i for i in leave if self._all[i].todo)
        for i in leave:
            self._running.discard(i)
            begun = len(self.moments[i]) % 3 == 2  # admitted, and no token since
            self.moments[i] += [self.clock] * (2 if begun else 1)
            if i in preempted:
                self.lost.setdefault(i, []).append(self._all[i].cached)
                self._all[i].cached = 0
            else:
                self.finished[i] = self.clock
        for i in set(compute) - self._running:
            self.moments[i].append(self.clock)
        self._running |= set(compute)
        prefill = sum(n for i, n in compute.items() if not self._answers(i))
        for i, n in compute.items():
            self._all[i].cached += n
        if self.free_pages < 0:
            raise ValueError(f"{-self.free_pages} pages too few in step {len(self.steps)}.")
        tokens, at = sum(compute.values()), self.clock
        seconds = self.costs.seconds(tokens, sum(self._all[i].cached for i in compute))
        self.clock += seconds if compute else 0.0
        answers = [self._all[i] for i in compute if self._all[i].todo == 0]
        for state in answers:
            state.answered += 1
            told = self.moments[state.request.id]
            told += [self.clock] * ((len(told) % 3 == 2) + (state.todo == 0))
            state.first = state.first if state.first == state.first else self.clock
        going_on = [s.cached for i in self._running if (s := self._all[i]).todo]
        room = self.page_size * (self.pages - self.free_pages)
        decode = tokens - prefill
        self.steps.append(
            Step(
                at, seconds if compute else 0.0, prefill, decode, len(answers), sum(going_on),
                room, len(self.waiting), len(self._running), preempted,
            )
        )  # fmt: skip
        self._await_somebody()
        return self.steps[-1]

    def _answers(self, i: int) -> bool:
        """Whether a request computes the token that came last, and no prompt."""
        state = self._all[i]
        return state.answered > 0 and state.todo == 1

    def _held(self, state: _State) -> int:
        return -(-max(state.cached, self.reserved) // self.page_size)

    def _await_somebody(self) -> None:
        """Let the clock run to the next arrival if nobody is here."""
        if not self._running and not self.waiting and not self.ended:
            coming = (s.request.arrival for i, s in self._all.items() if i not in self.finished)
            self.clock = max(self.clock, min(coming))


@dataclass(frozen=True)
class Run:
    """A whole simulation: its steps, and of each request the wait for its first token.

    ``last``: when the last request came, got its first token, and had its answer. ``moments``: when
    each request came; then, as often as it was admitted, when that was, when its next token came,
    and when it had its answer or was thrown out; at the end, when its pages were free. ``lost``: of
    who was thrown out, how many rows each time.
    """

    steps: tuple[Step, ...]
    waits: Mapping[int, float]
    seconds: float
    last: tuple[float, float, float] = (0.0, 0.0, 0.0)
    moments: Mapping[int, Sequence[float]] = field(default_factory=dict)
    lost: Mapping[int, Sequence[int]] = field(default_factory=dict)

    @property
    def tokens_per_second(self) -> float:
        """Tokens of answers a second."""
        return sum(step.answered for step in self.steps) / self.seconds

    @property
    def longest_wait(self) -> float:
        """The longest that a request waited for its first token."""
        return max(self.waits.values())

    @property
    def wasted(self) -> float:
        """The share of the held memory that nobody needed, on the average over the time."""
        held = sum(step.room * step.seconds for step in self.steps)
        return sum(step.wasted * step.seconds for step in self.steps) / held


def simulate(
    policy: Policy,
    requests: Sequence[Request],
    *,
    pages: int,
    page_size: int,
    budget: int,
    costs: Costs | None = None,
    reserved: int = 0,
) -> Run:
    """Serve ``requests`` until all have ended.

    Args:
        policy: see `Policy`. pages, page_size: the pool. budget: most tokens of a step.
        reserved: room for so many rows is set aside for whoever is admitted: a cache without pages.

    Raises ValueError if the policy needs more pages than there are, or gets nowhere.
    """
    server = Server(requests, pages, page_size, costs or Costs(), reserved)
    while not server.ended:
        if len(server.steps) >= MOST_STEPS:
            raise ValueError(f"after {MOST_STEPS} steps there are requests without an answer.")
        state = (server.waiting, server.running, server.free_pages)
        server.step(*policy(*state, budget=budget, page_size=page_size))
    late = max(requests, key=lambda r: (r.arrival, r.id))
    last = (late.arrival, late.arrival + server.waits[late.id], server.finished[late.id])
    return Run(tuple(server.steps), server.waits, server.clock, last, server.moments, server.lost)


def trace(
    rng: Generator,
    n: int,
    *,
    every: float,
    prompts: tuple[int, int] = (16, 128),
    outputs: tuple[int, int] = (4, 128),
) -> list[Request]:
    """Return ``n`` requests, one each ``every`` seconds on the average, at random.

    Lengths lie between two bounds, evenly on a logarithmic scale: most are short, a few are long.
    """
    arrivals = rng.exponential(every, n).cumsum() - every
    lengths = [
        (low * (high / low) ** rng.random(n)).round().astype(int)
        for low, high in (prompts, outputs)
    ]
    return [
        Request(i, max(0.0, float(arrivals[i])), int(lengths[0][i]), int(lengths[1][i]))
        for i in range(n)
    ]
