"""Exercise 12.4: the first backend of a list that can do all that is asked, and why not others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.random import Generator

from course_lib.accounting.backends import BACKENDS, SITUATIONS
from course_lib.judging.finding import Finding
from course_lib.judging.spec import HARD, Case, Exercise, Mistake, Observed

Facts = dict[str, Any]
Rule = Callable[[Any, Any], bool]  # what is asked, what is supported
Reasons = dict[str, list[str]]


def _listed(asked: Any, supported: Any) -> bool:
    return asked in supported


def _if_asked(asked: bool, supported: bool) -> bool:
    return supported or not asked


_RULES: dict[str, Rule] = {
    "gpu": lambda asked, ends: ends[0] <= asked <= ends[1],
    **dict.fromkeys(("dtype", "cache", "d", "mask"), _listed),
    "page": lambda asked, sizes: asked is None or asked in sizes,
    **dict.fromkeys(("mixed", "backward"), _if_asked),
}


def _first(reasons: Reasons) -> str | None:
    return next((name for name, why in reasons.items() if not why), None)


def _of_those_that_fail(reasons: Reasons, _: str | None) -> Reasons:
    return {name: why for name, why in reasons.items() if why}


def _chooser(
    pick: Callable[[Reasons], str | None] = _first,
    tell: Callable[[Reasons, str | None], Reasons] = _of_those_that_fail,
    rules: Mapping[str, Rule] = _RULES,
) -> Callable[[Facts, Sequence[Facts]], tuple[str | None, Reasons]]:
    """Return the choice by other rules; ``pick`` and ``tell`` get every backend's reasons."""

    def choose(need: Facts, backends: Sequence[Facts]) -> tuple[str | None, Reasons]:
        reasons = {
            row["name"]: [key for key, rule in rules.items() if not rule(need[key], row[key])]
            for row in backends
        }
        name = pick(reasons)
        return name, tell(reasons, name)

    return choose


def _by(**rules: Rule) -> Callable[..., Any]:
    return _chooser(rules=_RULES | rules)


_RIGHT = _chooser()
_DTYPES = ("fp16", "bf16", "fp32", "fp8")
_MASKS = ("none", "causal", "window", "rule")


def _drawn(
    rng: Generator, mask: str = "window", *, alike: bool = False
) -> tuple[Facts, list[Facts]]:
    """Return a need, and a backend that just serves it among others that lack one thing each.

    ``alike``: the cache is to have the dtype of q, k and v; else it has another.
    Who lacks a dtype or a mask has all the others; sizes that are lacking are near, or are
    multiples, or are written with the same digits.
    """
    gpu, d = int(rng.integers(70, 110)), 16 * int(rng.integers(2, 15))
    page = int(rng.choice([16, 32, 64]))
    dtype, cache = map(str, rng.choice(_DTYPES, 2, replace=False))
    cache = dtype if alike else cache
    need: Facts = {"gpu": gpu, "dtype": dtype, "cache": cache, "d": d, "mask": mask, "page": page,
                   "mixed": True, "backward": True}  # fmt: skip
    serves: Facts = {"gpu": (gpu, gpu), "dtype": ("fp64", dtype), "cache": ("fp64", cache),
                     "d": (2 * d, d), "mask": ("none", mask), "page": (8, page),
                     "mixed": True, "backward": True}  # fmt: skip
    lacks: list[Facts] = [
        {"gpu": (gpu - 20, gpu - 1)}, {"gpu": (gpu + 1, gpu + 20)},
        {"dtype": _others(_DTYPES, dtype)}, {"cache": _others(_DTYPES, cache)},
        {"mask": _others(_MASKS, mask)}, {"dtype": (f"{dtype}_scaled",)},
        {"mask": (f"{mask}_from_behind",)}, {"d": (d - 8, d + 8)}, {"d": (10 * d,)},
        {"d": (d // 2,)}, {"page": ()}, {"page": (page // 2, 2 * page)}, {"page": (10 * page,)},
        {"mixed": False}, {"backward": False}, {"page": (), "backward": False, "d": (576,)},
    ]  # fmt: skip
    rows = [serves | lack for lack in lacks]
    rng.shuffle(rows)  # type: ignore[arg-type]
    where = sorted(int(i) for i in rng.choice(range(3, len(rows)), 2, replace=False))
    for place in reversed(where):  # two that serve: the first of them is the answer
        rows.insert(place, dict(serves))
    names = rng.permutation([f"kernel {letter}" for letter in "ABCDEFGHIJKLMNOPQR"])
    return need, [{"name": str(name), **row} for name, row in zip(names, rows, strict=True)]


def _as_told(row: Facts) -> Facts:
    """Return a row of one's own: what the text calls a list is one, and `gpu` is a pair."""
    return {
        key: [*value] if isinstance(value, list | tuple) and key != "gpu" else value
        for key, value in row.items()
    }


def _none_serves(need: Facts, drawn: list[Facts]) -> list[Facts]:
    """Return those of a drawn list that lack something, most of them one thing alone."""
    lacking = _RIGHT(need, drawn)[1]
    return [row for row in drawn if row["name"] in lacking]


def _others(all_of_them: Sequence[str], asked: str) -> tuple[str, ...]:
    return tuple(one for one in all_of_them if one != asked)


def _cases(rng: Generator) -> list[Case]:
    need, drawn = _drawn(rng)
    documents = SITUATIONS["training on packed documents on an A100: a token sees its own document"]
    easy = {"page": None, "mixed": False, "backward": False}
    lists: list[tuple[str, Facts, Sequence[Facts]]] = [
        *((name, need, BACKENDS) for name, need in SITUATIONS.items()),
        ("training on packed documents on a T4: nobody serves", documents | {"gpu": 75}, BACKENDS),
        ("a drawn list: each kernel but two lacks something", need, drawn),
        ("a drawn list, and less is asked: no pages, no mixed batch, no gradients",
         need | easy, drawn),
        ("a drawn list, and no pages are asked for", need | {"page": None}, drawn),
        ("a drawn list that no kernel of it serves", need | {"d": 8 * need["d"]}, drawn),
        *((f"a drawn list in which each lacks something{also}", need,
           _none_serves(need, drawn)[::step])
          for also, step in (("", 1), (", the other way round", -1))),
        ("a drawn list of one", need, drawn[:1]),
        ("a list of none", need, []),
    ]  # fmt: skip
    lists.append(("a drawn list, the cache in the dtype of q", *_drawn(rng, alike=True)))
    for mask in _others(_MASKS, "window"):
        lists.append((f"a drawn list, mask {mask}", *_drawn(rng, mask)))
    return [Case(name, (dict(need), [_as_told(row) for row in rows])) for name, need, rows in lists]


def _judge(case: Case, observed: Observed, expected: tuple[str | None, Reasons]) -> Finding | None:
    got, (need, rows) = observed.result, case.args
    if not isinstance(got, tuple | list) or len(got) != 2 or not isinstance(got[1], dict):
        return Finding("the form", "return two things: a name or None, and a dict of reasons.")
    (name, reasons), (right, why) = got, expected
    order = [row["name"] for row in rows]
    if name is not None and name not in order:
        return Finding("the form", f"{name!r} is no name of the list: return a name, or None.")
    if name != right:
        return Finding("the choice", _about_choice(name, right, why, order))
    for backend in order:
        if finding := _about_reasons(backend, reasons.get(backend), why.get(backend, []), need):
            return finding
    if len(reasons) > len(why):
        return Finding("the reasons", "the dict has names that are not in the list.")
    return None


def _about_choice(name: str | None, right: str | None, why: Reasons, order: list[str]) -> str:
    if name is None:
        return f"you chose none, but {right} can do all that is asked."
    if name in why:
        return f"you chose {name}. It cannot serve here: {_words(why[name])}."
    assert right is not None  # else every name is in `why`
    return f"{name} could, but {right} stands before it in the list ({order.index(right) + 1}.)."


def _about_reasons(backend: str, got: Any, why: list[str], need: Facts) -> Finding | None:
    if not why:
        if got is None:
            return None
        return Finding("the reasons", f"{backend} can serve: it has no place among the reasons.")
    if got is None:
        return Finding("the reasons", f"{backend} is missing: it cannot serve ({_words(why)}).")
    if not isinstance(got, tuple | list) or any(word not in need for word in got):
        return Finding("the form", f"reasons[{backend!r}] should be a list of keys of `need`.")
    if set(got) != set(why) or len(got) != len(why):
        says = f"{backend}: your reasons are {_words(got)}; it fails at {_words(why)}."
        return Finding("the reasons", says)
    return None


def _words(keys: Sequence[str]) -> str:
    return ", ".join(keys) or "none"


_FORGOTTEN = {
    "gpu": "the GPU",
    "dtype": "the dtype of q, k, v",
    "cache": "the dtype of the cache",
    "d": "the head dimension",
    "mask": "the mask",
    "page": "the pages",
    "mixed": "the mixed batch",
    "backward": "the gradients",
}
_SIZES = "a kernel is compiled for some head dimensions: the list of `d` holds them all."
_NOBODY = "one thing that is missing is enough: where no backend can do all, the answer is None."


def _up_to_the_choice(reasons: Reasons, name: str | None) -> Reasons:
    names = list(reasons)
    return {other: reasons[other] for other in names[: names.index(name) if name else None]}


_MISTAKES = Mistake.table(
    *(
        (f"{what} are forgotten" if what.endswith("s") else f"{what} is forgotten",
         f"compare need[{key!r}] as well: a backend that lacks it fails, or computes nonsense.",
         _by(**{key: lambda *_: True}))
        for key, what in _FORGOTTEN.items()
    ),
    ("newer GPUs are taken for better",
     "`gpu` has two ends. A kernel may be written for one generation's instructions: "
     "FlashAttention-3 does not run on a B200.",
     _by(gpu=lambda asked, ends: asked >= ends[0])),
    ("only the newest GPU is compared",
     "`gpu` has two ends: an older GPU than the first is not supported either.",
     _by(gpu=lambda asked, ends: asked <= ends[1])),
    ("the ends of gpu are left out", "both ends are supported themselves: <=, not <.",
     _by(gpu=lambda asked, ends: ends[0] <= asked < ends[1]),
     _by(gpu=lambda asked, ends: ends[0] < asked <= ends[1]),
     _by(gpu=lambda asked, ends: ends[0] < asked < ends[1])),
    ("gpu is looked up in its two ends",
     "`gpu` is a range: 89 lies between 80 and 90, though it is neither.",
     _by(gpu=_listed)),
    ("any d up to the largest", _SIZES, _by(d=lambda asked, sizes: asked <= max(sizes))),
    ("any d between the smallest and the largest", _SIZES,
     _by(d=lambda asked, sizes: min(sizes) <= asked <= max(sizes))),
    ("the size of a page is not compared",
     "that a backend knows pages is not enough: look up their size.",
     _by(page=lambda asked, sizes: asked is None or bool(sizes))),
    ("no pages asked is refused",
     "`need['page']` is None where K and V lie in one piece: then any backend will do, with pages "
     "or without.",
     _by(page=_listed),
     _by(page=lambda asked, sizes: (asked or 0) in (sizes or (0,)))),
    ("what is not asked for is refused",
     "a kernel that can do more than is asked can serve, too: `mixed` and `backward` count only "
     "where the need has them True.",
     *(_by(**dict.fromkeys(keys, rule))
       for keys in (("mixed", "backward"), ("mixed",), ("backward",))
       for rule in (lambda asked, has: asked == has, lambda asked, has: has))),
    ('"rule" is taken for every mask',
     "look up the mask that is asked for: what is not in the list is not supported.",
     _by(mask=lambda asked, masks: asked in masks or "rule" in masks)),
    ("no mask is taken for granted",
     'look up "none" in the list like any other mask: some kernels are causal only.',
     _by(mask=lambda asked, masks: asked in masks or asked == "none")),
    ("the last that fits",
     "the list is in the order in which it is tried: take the first that fits.",
     _chooser(lambda reasons: _first(dict(reversed(list(reasons.items())))))),
    ("the first of the list, whatever is asked",
     "the first of the list may lack something: take the first without a reason against it.",
     _chooser(lambda reasons: next(iter(reasons)))),
    ("the least bad, where nobody fits", _NOBODY,
     _chooser(lambda reasons: min(reasons, key=lambda name: len(reasons[name])))),
    ("the first of the list, where nobody fits", _NOBODY,
     _chooser(lambda reasons: _first(reasons) or next(iter(reasons)))),
    ("only the first reason",
     "say everything that a backend lacks: who mends one thing wants to know the next.",
     _chooser(tell=lambda reasons, _: {name: why[:1] for name, why in reasons.items() if why})),
    ("reasons of the chosen ones as well",
     "whoever can serve has no place among the reasons, not even with an empty list.",
     _chooser(tell=lambda reasons, _: reasons)),
    ("reasons only up to the choice",
     "give the reasons of every backend that cannot serve, those after the chosen one as well.",
     _chooser(tell=_up_to_the_choice)),
    ("reasons only where nobody fits",
     "give the reasons of every backend that cannot serve, also if another one can.",
     _chooser(tell=lambda reasons, name: {} if name else reasons)),
)  # fmt: skip


def _in_order(case: Case, result: Any) -> Any:
    """Return a result whose reasons stand in the order of the rules: any order is right."""
    try:
        name, reasons = result
        return name, {other: sorted(why, key=list(_RULES).index) for other, why in reasons.items()}
    except Exception:  # it has another form: no mistake has
        return None


EXERCISE = Exercise.of(
    "12.4",
    cases=_cases,
    truth=_RIGHT,
    judge=_judge,
    compared=_in_order,
    spared=dict.fromkeys(HARD, "chooses from a list: there are no scores and no tiles"),
    mistakes=_MISTAKES,
)
