"""Requests on pages: who holds which, what is wasted, what one's own pool does (lesson 11).

The picture answers operations with a small pool of its own, in JavaScript. Here there is none, for
lesson 11 asks for one: a state is recorded, laid out in order of arrival, or read from the pool
that `PageTable.replay` is given. Source: Kwon et al. 2023 (arXiv:2309.06180), sections 4.1 to 4.4.

What JavaScript computes too is held against Python in tests/widgets/test_javascript.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import traitlets

from course_lib.style.look import PAGE_INK, styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure
from course_lib.widgets.base import CourseWidget, check_count, static_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = "ABCDEF"
_TONES = (("blue", 0.35), ("grey", 0.5), ("blue", 0.7), ("grey", 0.8), ("grey", 0.25), ("blue", 1))
"""A hue and how much of it: greys and blues, for the other hues are those of Q, K, V, S and O."""
_LIMITS = {"page_size": 64, "slots": 2**14, "reserve": 2**14}
_MOST_STEPS = 2000

Frame = dict[str, Any]
Operation = Sequence[Any]

EXAMPLES: dict[str, dict[str, Any]] = {
    "start": {
        "operations": [
            ["append", "D", 32], ["append", "A", 16], ["append", "B", 16], ["append", "C", 16],
            ["append", "A", 16], ["free", "D"], ["append", "C", 16], ["append", "D", 29],
            ["append", "B", 25], ["append", "A", 5],
        ],
        "frame": {
            "page_size": 16,
            "tables": {"A": [2, 5, 9], "B": [3, 7, 8], "C": [4, 0], "D": [1, 6]},
            "lengths": {"A": 37, "B": 41, "C": 32, "D": 29},
            "wrote": ["A", 9, 4], "copied": None, "refused": 0,
        },
    },
    "copy": {
        "operations": [
            ["append", "B", 16], ["append", "A", 16], ["free", "B"], ["append", "A", 16],
            ["append", "C", 5], ["append", "B", 17], ["fork", "B", "D"], ["append", "D", 1],
        ],
        "frame": {
            "page_size": 16,
            "tables": {"A": [1, 0], "C": [2], "B": [3, 4], "D": [3, 5]},
            "lengths": {"A": 32, "C": 5, "B": 17, "D": 18},
            "wrote": ["D", 5, 1], "copied": [4, 5], "refused": 0,
        },
    },
    "fork": {
        "operations": [
            ["append", "A", 17], ["fork", "A", "B"], ["fork", "A", "C"], ["fork", "A", "D"],
        ],
        "frame": {
            "page_size": 16,
            "tables": {"A": [0, 1], "B": [0, 1], "C": [0, 1], "D": [0, 1]},
            "lengths": {"A": 17, "B": 17, "C": 17, "D": 17},
            "wrote": None, "copied": None, "refused": 0,
        },
    },
}  # fmt: skip
"""Operations, and where everything lies after them on pages of 16: the picture's own answers."""


class PageTable(CourseWidget):
    """Requests that grow, fork and end, on pages; the same requests with room reserved.

    Args:
        lengths: tokens of requests A, B, … that came one after the other; None: an example.
        **settings: any of the attributes.

    Attributes:
        page_size: slots of a page. slots: of the whole memory. reserve: slots for each request
            where pages are not used. chosen: the request whose table is followed.
        operations: what was done so far. frame: where everything lies after it.
        frames: what a replayed pool did, step by step. step: the one that is shown.

    Raises:
        ValueError: for an unknown setting or lengths that do not fit. traitlets.TraitError: for a
            bad count.
    """

    _esm = static_text("tokens.js", "common.js", "handles.js", "page_table.js")
    _css = static_text("tokens.css", "common.css", "handles.css", "page_table.css")
    parts = ("pages-memory", "pages-acts", "pages-size")
    height_px = 620

    page_size = traitlets.Int(16).tag(sync=True)
    slots = traitlets.Int(256).tag(sync=True)
    reserve = traitlets.Int(64).tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    chosen = traitlets.Unicode("").tag(sync=True)
    operations: traitlets.List = traitlets.List().tag(sync=True)
    frame = traitlets.Dict().tag(sync=True)
    frames: traitlets.List = traitlets.List().tag(sync=True)

    def __init__(self, lengths: Iterable[int] | None = None, **settings: Any) -> None:
        unknown = set(settings) - {*_LIMITS, "chosen", "presenter", "operations", "frame", "frames"}
        if unknown:
            raise ValueError(f"PageTable has no setting {sorted(unknown)[0]!r}.")
        if lengths is not None:
            settings = _in_order(list(lengths), settings)
        elif "frame" not in settings and "frames" not in settings:
            settings = {**EXAMPLES["start"], **settings}
        super().__init__(**settings)

    @classmethod
    def example(cls, name: str, **settings: Any) -> PageTable:
        """Return the picture of an example in `EXAMPLES`. Raises ValueError for another name."""
        if name not in EXAMPLES:
            raise ValueError(f"name must be one of {', '.join(EXAMPLES)}, got {name!r}.")
        return cls(**EXAMPLES[name], **settings)

    @classmethod
    def replay(
        cls,
        pool_class: Any,
        operations: Iterable[Operation],
        *,
        n_pages: int = 8,
        page_size: int = 4,
        **settings: Any,
    ) -> PageTable:
        """Return the picture of what a pool of one's own does, an operation a step.

        Args:
            pool_class: called as ``pool_class(n_pages, page_size)``; has ``append(seq)``, which
                returns (page, slot, copy_from), ``fork(parent, child)``, ``free(seq)`` and
                ``table(seq)``.
            operations: ``("append", seq)`` or ``("append", seq, tokens)``, ``("fork", parent,
                child)``, ``("free", seq)``.

        Raises:
            ValueError: for an operation that is none of these, or too many of them.
        """
        frames = list(_replayed(pool_class, _singles(operations), n_pages, page_size))
        settings = {"reserve": max(1, n_pages * page_size // 4), **settings}
        return cls(frames=frames, page_size=page_size, slots=n_pages * page_size, **settings)

    @traitlets.validate(*_LIMITS)
    def _valid_count(self, proposal: Any) -> int:
        check_count(proposal["trait"].name, proposal["value"], _LIMITS[proposal["trait"].name])
        return proposal["value"]

    def shown(self) -> Frame:
        """Return where everything lies in the picture: a step of the replay, or the last frame."""
        return self.frames[self._place()] if self.frames else self.frame

    def _place(self) -> int:
        return max(0, min(self.step, len(self.frames) - 1))

    def counts(self) -> dict[str, Any]:
        """Return pages, slots and tokens in use, and the slots that reserving would take."""
        return counts(self.shown(), self.shown()["page_size"], self.reserve)

    def to_table(self) -> str:
        """Return the tables, and what is empty by either way, as text."""
        now, c = self.shown(), self.counts()
        lines = [f"{self.slots} slots, pages of {now['page_size']}"]
        if now.get("says"):
            lines.append(f"step {self._place()} of {len(self.frames) - 1}: {now['says']}")
        for name, table in now["tables"].items():
            wrong = len(now.get("wrong", {}).get(name, ()))
            tail = f"; {wrong} of its tokens are not its own" if wrong else ""
            pages = ", ".join(map(str, table[:12])) + (", …" if len(table) > 12 else "")
            lines.append(f"  {name}: {now['lengths'][name]} tokens on pages {pages}{tail}")
        lines.append(f"  paged     {c['pages']} pages, {c['empty']} of {c['slots']} slots empty")
        lines.append(f"  reserved  {c['unused']} of {c['reserved']} slots empty")
        if now.get("error"):
            lines.append(f"  {now['error']}")
        return "\n".join(lines)

    @styled
    def to_figure(self) -> Figure:
        """Draw each request's filled and empty slots as bars of one scale, by either way."""
        now, c = self.shown(), self.counts()
        figure, axes = new_figure(figsize=(8, 2.4))
        at = {"pages": 0.0, "reserved": 0.0}
        first = {page: name for name, table in reversed(now["tables"].items()) for page in table}
        for place, (name, n) in enumerate(now["lengths"].items()):
            own = [page for page, holder in first.items() if holder == name]
            filled = sum(c["filled"][page] for page in own)
            room = {"pages": len(own) * now["page_size"], "reserved": max(n, self.reserve)}
            for way, kept in (("pages", filled), ("reserved", n)):
                axes.barh(way, kept, left=at[way], color=_tone(name, place), edgecolor=PAGE_INK)
                axes.barh(way, room[way] - kept, left=at[way] + kept, color="none",
                          edgecolor=PAGE_INK, hatch="///")  # fmt: skip
                at[way] += room[way]
        axes.invert_yaxis()
        axes.set(xlabel=f"slots; pages of {now['page_size']}, or {self.reserve} reserved for each")
        return figure


def counts(frame: Frame, page_size: int, reserve: int) -> dict[str, Any]:
    """Return what the requests of a frame take, on pages and with ``reserve`` slots for each.

    ``filled`` and ``holders`` say of each used page how many slots hold a token and how many
    requests hold the page; a shared page is counted once.
    """
    filled: dict[int, int] = {}
    holders: dict[int, int] = {}
    for name, table in frame["tables"].items():
        for place, page in enumerate(table):
            rest = max(0, frame["lengths"][name] - place * page_size)
            filled[page] = max(filled.get(page, 0), min(page_size, rest))
            holders[page] = holders.get(page, 0) + 1
    tokens = sum(frame["lengths"].values())
    reserved = sum(max(n, reserve) for n in frame["lengths"].values())
    slots = len(filled) * page_size
    return {
        "filled": filled, "holders": holders, "pages": len(filled), "slots": slots,
        "empty": slots - sum(filled.values()), "tokens": tokens, "reserved": reserved,
        "unused": reserved - tokens,
    }  # fmt: skip


def _tone(name: str, place: int) -> tuple[str, float]:
    hue, share = _TONES[(NAMES.index(name) if name in NAMES else place) % len(_TONES)]
    return hex_of(hue), share


def _in_order(lengths: list[int], settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of requests that came one after the other: page after page."""
    reserve, size = settings.get("reserve", 1024), settings.get("page_size", 16)
    slots = settings.get("slots", reserve * len(lengths))
    if not 1 <= len(lengths) <= len(NAMES):
        raise ValueError(f"there must be 1 to {len(NAMES)} lengths, got {len(lengths)}.")
    tables, free = {}, 0
    for name, n in zip(NAMES, lengths, strict=False):
        check_count("a length", n, _LIMITS["slots"])
        tables[name] = list(range(free, free := free + -(-n // size)))
    if free * size > slots:
        raise ValueError(f"lengths {lengths} do not fit into {slots} slots.")
    frame = {
        "page_size": size, "tables": tables, "lengths": dict(zip(tables, lengths, strict=True)),
        "wrote": [name, free - 1, (n - 1) % size], "copied": None, "refused": 0,
    }  # fmt: skip
    operations = [["append", name, n] for name, n in frame["lengths"].items()]
    return {
        "slots": slots,
        "reserve": reserve,
        "operations": operations,
        "frame": frame,
        "chosen": operations[-1][1],
        **settings,
    }


# What a pool of one's own does ------------------------------------------------------------------


def _singles(operations: Iterable[Operation]) -> list[Operation]:
    """Return the operations with one token at a time."""
    singles: list[Operation] = []
    for operation in operations:
        what, *names = operation
        if what == "append" and len(names) in (1, 2):
            singles += [("append", names[0])] * (names[1] if len(names) == 2 else 1)
        elif (what, len(names)) in (("fork", 2), ("free", 1)):
            singles.append(tuple(operation))
        else:
            raise ValueError(
                "an operation is ('append', seq), ('append', seq, tokens), ('fork', parent, child) "
                f"or ('free', seq), got {operation!r}."
            )
    if len(singles) > _MOST_STEPS:
        raise ValueError(f"operations must be {_MOST_STEPS} steps or fewer, got {len(singles)}.")
    return singles


def _replayed(
    pool_class: Any, operations: list[Operation], n_pages: int, page_size: int
) -> Iterator[Frame]:
    """Yield a frame before the first operation and after each, up to the first error."""
    state: Frame = {"page_size": page_size, "refused": 0}
    empty: Frame = {"tables": {}, "lengths": {}, "wrong": {}, "wrote": None, "copied": None}
    yield state | empty | {"says": "an empty pool", "error": ""}
    watched = _Watched(pool_class(n_pages, page_size), n_pages, page_size)
    for operation in operations:
        says = f"{operation[0]}({', '.join(map(repr, operation[1:]))})"
        done: Frame = {"wrote": None, "copied": None}
        try:
            try:
                done, answer = watched.do(*operation)
                says += answer
            except MemoryError:
                says += ": the pool is full"
            seen = watched.read_back()
        except Exception as error:  # whatever a student's pool raises, or a strange answer
            yield state | empty | {"says": says, "error": f"{type(error).__name__}: {error}"}
            return
        yield state | done | seen | {"says": says, "error": ""}


class _Watched:
    """A pool, and a memory in which every token is written where the pool says."""

    def __init__(self, pool: Any, n_pages: int, page_size: int) -> None:
        self.pool, self.n_pages, self.page_size = pool, n_pages, page_size
        self.memory: dict[tuple[int, int], int] = {}  # (page, slot) -> the number of its token
        self.texts: dict[Any, list[int]] = {}  # request -> the numbers of its tokens, in order
        self.tokens = 0

    def do(self, what: str, name: Any, child: Any = None) -> tuple[Frame, str]:
        """Do one operation; return what it wrote and copied, and the pool's answer in words."""
        done: Frame = {"wrote": None, "copied": None}
        if what == "append":
            page, slot, copy_from = _append(self.pool, name, self.n_pages, self.page_size)
            if copy_from is not None:
                done["copied"] = [copy_from, page]
                for old in range(slot):
                    self.memory[page, old] = self.memory.get((copy_from, old), -1)
            done["wrote"] = [str(name), page, slot]
            self.memory[page, slot] = self.tokens
            self.texts.setdefault(name, []).append(self.tokens)
            self.tokens += 1
            return done, f" gives {(page, slot, copy_from)}"
        if what == "fork":
            self.pool.fork(name, child)
            self.texts[child] = list(self.texts.get(name, []))
        else:
            self.pool.free(name)
            self.texts.pop(name, None)
        return done, ""

    def read_back(self) -> Frame:
        """Return every table and length, and the tokens that a table leads to wrongly."""
        tables = {name: _pages(self.pool, name, self.n_pages) for name in self.texts}
        return {
            "tables": {str(name): table for name, table in tables.items()},
            "lengths": {str(name): len(text) for name, text in self.texts.items()},
            "wrong": {
                str(name): self._wrong(text, tables[name]) for name, text in self.texts.items()
            },
        }

    def _wrong(self, text: list[int], table: list[int]) -> list[int]:
        """Return the places in a text where its table leads to another token, or nowhere."""
        size = self.page_size
        return [
            i
            for i, token in enumerate(text)
            if i // size >= len(table) or self.memory.get((table[i // size], i % size)) != token
        ]


def _append(pool: Any, name: Any, n_pages: int, page_size: int) -> tuple[int, int, int | None]:
    """Return what append answers. Raises ValueError if that is no page, slot and page or None."""
    answer = pool.append(name)
    try:
        page, slot, copy_from = answer
        found = int(page), int(slot), None if copy_from is None else int(copy_from)
    except (TypeError, ValueError):
        raise ValueError(f"append gave {answer!r}, not (page, slot, copy_from).") from None
    inside = 0 <= found[0] < n_pages and 0 <= found[1] < page_size
    if not inside or not (found[2] is None or 0 <= found[2] < n_pages):
        raise ValueError(f"append gave {found}: there are {n_pages} pages of {page_size} slots.")
    return found


def _pages(pool: Any, name: Any, n_pages: int) -> list[int]:
    """Return the table of a request. Raises ValueError if it names a page that is not there."""
    table = [int(page) for page in pool.table(name)]
    if not all(0 <= page < n_pages for page in table):
        raise ValueError(f"table({name!r}) is {table}, but there are {n_pages} pages.")
    return table
