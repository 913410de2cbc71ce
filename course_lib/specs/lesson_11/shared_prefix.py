"""Exercise 11.5: how much of a prompt a radix tree of cached requests holds already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from numpy.random import Generator

from course_lib.accounting.cache_pages import reusable_tokens
from course_lib.judging.judges import exactly
from course_lib.judging.spec import HARD, Case, Exercise, Mistake

_DEEP = 10  # edges of a tree, one below the other; more are too deep for a message
_WIDE = 150  # edges that begin in one place
_LONG = 100  # tokens of a prompt
Tokens = Sequence[int]
Tree = dict[int, tuple[list[int], Any]]
Matched = Callable[[Tree, Tokens, int], int]  # (tree, prompt, page_size) -> tokens
Answer = Callable[..., tuple[int, int]]


def radix_tree(requests: Sequence[Tokens]) -> Tree:
    """Return {first token: (edge, what goes on below it)} of these requests."""
    tree: Tree = {}
    for first in dict.fromkeys(request[0] for request in requests if request):
        those = [list(request) for request in requests if request and request[0] == first]
        edge = those[0][: min(_agree(those[0], one) for one in those)]
        tree[first] = edge, radix_tree([request[len(edge) :] for request in those])
    return tree


def _paths(tree: Tree) -> Iterator[list[int]]:
    """Yield all requests that end in a leaf."""
    for edge, below in tree.values():
        yield from ([*edge, *rest] for rest in (_paths(below) if below else [[]]))


def _cases(rng: Generator) -> list[Case]:
    drawn_numbers = (1 + rng.choice(150_000, 900, replace=False)).tolist()
    numbers = dict(zip("abcdefghijklmnopqrstuvwxyz", drawn_numbers, strict=False))

    def case(name: str, requests: str, prompt: str, page_size: int, zero: str = "") -> Case:
        """Return a case in which a letter is a token, ``zero`` token 0; a short one is told so."""
        number = numbers | ({zero: 0} if zero else {})
        cached = [[number[x] for x in request] for request in requests.split()]
        args = radix_tree(cached), _anew(number[x] for x in prompt), page_size
        slot_bytes = int(rng.integers(2, 99)) * 1024
        letters = f" (cached: {requests or 'nothing'}; the prompt: {prompt}; a letter is a token"
        letters += f", {zero} is 0)" if zero else ")"
        told = letters if len(requests) < 40 else ""
        return Case(f"{name}, pages of {page_size}{told}", (*args, slot_bytes))

    def of(name: str, cached: Sequence[Tokens], prompt: Tokens, page_size: int) -> Case:
        """Return a case of tokens as they are."""
        args = radix_tree(cached), _anew(prompt), page_size, int(rng.integers(2, 99)) * 1024
        return Case(f"{name}, pages of {page_size}", args)

    long = (1 + rng.integers(0, 150_000, 2200)).tolist()
    wide = [*([x, 1] for x in long[1:_WIDE]), *([long[0], x, 2] for x in long[1 : _WIDE + 1])]
    steps = [[*long[:at], 0] for at in range(3, 3 * _DEEP, 3)]

    def drawn(page_size: int) -> tuple[str, str, int]:
        text = "".join(rng.choice([*"abc"], 60))
        at = sorted(int(x) for x in rng.choice(range(4, 40), 3, replace=False))
        turned = [text[:x] + chr(ord("d") + i) + text[x:50] for i, x in enumerate(at)]
        return " ".join([text, *turned]), turned[2][: at[2] + 9] + "zzz", page_size

    page = int(rng.integers(3, 7))
    return [
        case("a prompt that leaves a cached one within an edge", "abcdefghijkl", "abcdefgxyzuv", 2),
        case("a prompt that goes on where a cached one ends", "abcdefgh", "abcdefghxy", 4),
        case("two requests that part, and the prompt takes the second way",
             "abcdefgh abcdxyzwuv xyuvw", "abcdxyzwq", 2),
        case("two requests that part, and the prompt takes neither way",
             "abcdef abcdgh", "abcdxyz", 2),
        case("token 0 within an edge", "abcdefgh", "abcdefxy", 2, zero="c"),
        case("token 0 begins an edge", "abcdxyzw abcdefgh", "abcdxyzq", 2, zero="x"),
        case("a prompt that leaves an edge with a token that comes below it",
             "abcdxyz abcdefg", "abcxyzq", 1),
        case("edges that end within a page", "abcdefgh abcxyzuv abcxyw", "abcxyzuvw", 4),
        case("the same tokens, but for the first", "abcdefghij", "xbcdefghij", 3),
        case("the same tokens, one place further", "abcdefghij", "xabcdefghij", 1),
        case("a prompt that is cached whole", "abcdefghij", "abcdefgh", 4),
        case("a prompt that ends where requests part", "abcdef abcdgh", "abcd", 2),
        case("a prompt that is cached whole", "abc", "abc", 1),
        case("a prompt that is cached whole, and ends within a page", "abcdefghij", "abcdefgh", 3),
        case("a second page that is cached behind another first one",
             "abcdefgh mnopqrst", "abcdqrstu", 4),
        case("the same tokens in another order", "abcdefghij", "abdcefghij", 1),
        case("tokens that agree again later", "abcdefghij", "abcxefghij", 2),
        case("a prompt of one token", "abc", "a", 1),
        case("a prompt shorter than a page", "abcdefghij", "abcde", 16),
        case("nothing cached yet", "", "abcdefgh", 4),
        case("each request goes on where another ends",
             " ".join("abcdefghi"[:end] for end in range(1, 10)), "abcdefghijklmn", 1),
        case("requests that part three times", *drawn(page)),
        case("requests that part three times", *drawn(1)),
        of("other tokens that are written with the same digits (cached: 7, 1, 12, 5; the prompt: "
           "7, 11, 2, 5, 9)", [[7, 1, 12, 5]], [7, 11, 2, 5, 9], 1),
        of("other tokens that are written with the same digits (cached: 3, 7, 23, 45; the prompt: "
           "3, 72, 34, 5, 9)", [[3, 7, 23, 45]], [3, 72, 34, 5, 9], 1),
        of(f"requests that part {_DEEP} times", [*steps, long[: 3 * _DEEP + 9]],
           [*long[: 3 * _DEEP + 5], 0, 1], 4),
        of(f"{_WIDE} edges begin in one place, and behind the last of them as many",
           wide, [*wide[-1], 3], 1),
        of("a prompt of 2005 tokens that leaves a long one within an edge",
           [long[:2100]], [*long[:2000], 0, 1, 2, 3, 4], 16),
        of("a prompt of 2200 tokens that is cached whole", [long, long[:1100]], long, 16),
    ]  # fmt: skip


def _anew(tokens: Iterable[int]) -> list[int]:
    """Return tokens that are equal to those in the tree, and no objects of it."""
    return [int(str(token)) for token in tokens]


def _agree(a: Tokens, b: Tokens) -> int:
    differing = (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    return next(differing, min(len(a), len(b)))


def _longest(tree: Tree, prompt: Tokens, page_size: int) -> int:
    return max((_agree(path, prompt) for path in _paths(tree)), default=0)


def _walk(
    counts: Callable[[int, int, int], int] = lambda same, edge, page_size: same,
    goes_on: Callable[[int, int], bool] = lambda same, edge: same == edge,
    *,
    again: bool = False,
) -> Matched:
    """Return a walk: what an edge counts, of which ``same`` tokens agree, and when it goes on.

    again: below every edge stands the whole tree.
    """

    def matched(tree: Tree, prompt: Tokens, page_size: int) -> int:
        found, at = 0, tree
        while prompt and prompt[0] in at:
            edge, below = at[prompt[0]]
            same = _agree(edge, prompt)
            counted = counts(same, len(edge), page_size)
            found += counted
            if not goes_on(same, len(edge)):
                break
            prompt, at = prompt[max(same, counted) :], tree if again else below
        return found

    return matched


def _equal_places(tree: Tree, prompt: Tokens, page_size: int) -> int:
    pairs = (zip(path, prompt, strict=False) for path in _paths(tree))
    return max((sum(a == b for a, b in pair) for pair in pairs), default=0)


def _middle(tree: Tree, prompt: Tokens, page_size: int) -> int:
    if len(prompt) > _LONG:
        raise ValueError("a long prompt: it has a million middles")
    starts = [(path, i, j) for path in _paths(tree)
              for i in range(len(path)) for j in range(len(prompt))]  # fmt: skip
    return max((_agree(path[i:], prompt[j:]) for path, i, j in starts), default=0)


def _pages_of(tokens: Tokens, size: int) -> list[tuple[int, ...]]:
    return [tuple(tokens[i : i + size]) for i in range(0, len(tokens) - size + 1, size)]


def _unchained(leading: bool) -> Matched:
    """Return a look-up of pages by their own tokens: as long as they are found, or all found."""

    def matched(tree: Tree, prompt: Tokens, page_size: int) -> int:
        cached = {page for path in _paths(tree) for page in _pages_of(path, page_size)}
        found = [page in cached for page in _pages_of(prompt, page_size)]
        count = [*found, False].index(False) if leading else sum(found)
        return count * page_size

    return matched


def _answer(
    matched: Matched = _longest,
    whole: Callable[[int, int, int], int] = reusable_tokens,
    change: Callable[..., tuple[int, int]] = lambda tokens, slot, **_: (tokens, tokens * slot),
) -> Answer:
    """Return a model. whole: (matched, tokens of the prompt, page_size) -> tokens reused."""

    def model(tree: Tree, prompt: Tokens, page_size: int, slot_bytes: int) -> tuple[int, int]:
        found = min(matched(tree, prompt, page_size), len(prompt))
        tokens = whole(found, len(prompt), page_size)
        return change(tokens, slot_bytes, matched=found, n=len(prompt), page_size=page_size)

    return model


_MISTAKES = Mistake.table(
    ("a page that is shared in part is counted",
     "what can be shared is a page: one that holds another token as well is not this prompt's.",
     _answer(whole=lambda m, n, p: min(m, n - 1)),
     _answer(whole=lambda m, n, p: m),
     _answer(whole=lambda m, n, p: -(-m // p) * p),
     _answer(whole=lambda m, n, p: -(-min(m, n - 1) // p) * p),
     _answer(whole=lambda m, n, p: min(-(-m // p), (n - 1) // p) * p),
     _answer(whole=lambda m, n, p: min(m // p * p, n - 1))),
    ("no token is left to compute",
     "the query of the prompt's last token makes the first new token: that one is always computed.",
     _answer(whole=lambda m, n, p: m // p * p)),
    ("a token of every match is computed again",
     "only the last token of the prompt must be left: where a match ends before it, all of its "
     "whole pages are shared.",
     _answer(whole=lambda m, n, p: max(0, m - 1) // p * p)),
    ("a page of every whole match is computed again",
     "one token must be left, not one page: where the prompt ends within a page, its whole pages "
     "are all shared.",
     _answer(whole=lambda m, n, p: max(0, m // p - (m == n)) * p)),
    ("a page of every match is computed again",
     "only the last token of the prompt must be left: where a match ends before it, all of its "
     "whole pages are shared.",
     _answer(whole=lambda m, n, p: max(0, m // p - 1) * p)),
    ("only the first edge is walked",
     "where an edge agrees to its end, what goes on below it may agree as well.",
     _answer(_walk(goes_on=lambda same, edge: False))),
    ("the walk begins at the root again",
     "behind an edge stands a tree of its own: go on in `below`.",
     _answer(_walk(again=True))),
    ("the walk goes on behind a difference",
     "where an edge agrees in part, the prompt has left the tree: what is below the edge comes "
     "behind all of its tokens.",
     _answer(_walk(goes_on=lambda same, edge: True))),
    ("an edge counts whole or not at all",
     "a prompt may leave a cached one within an edge: the tokens up to there are shared.",
     _answer(_walk(lambda same, edge, p: edge if same == edge else 0))),
    ("an edge is taken for its first token",
     "the first token chooses the edge; the others must be compared as well.",
     _answer(_walk(lambda same, edge, p: edge, lambda same, edge: True))),
    ("each edge is rounded to whole pages",
     "pages do not begin where edges do: add up all tokens that agree, then round once.",
     _answer(_walk(lambda same, edge, p: same // p * p))),
    ("the first request is compared, not the best",
     "of all cached requests the one that agrees longest counts.",
     _answer(lambda tree, prompt, p: _agree(next(_paths(tree), []), prompt))),
    ("a common middle is taken for a prefix",
     "K and V of a token depend on all tokens before it: from the first difference on, nothing "
     "can be shared, however alike it goes on.",
     _answer(_equal_places), _answer(_middle)),
    ("a page is known by its own tokens alone",
     "the same tokens behind others have other K and V: a page is the same if it is, and all "
     "before it are. (Whoever looks pages up by a hash puts the hash of the page before into it.)",
     _answer(_unchained(leading=True)), _answer(_unchained(leading=False))),
    ("what is left to compute is returned",
     "the first answer is how many tokens need not be computed.",
     _answer(change=lambda tokens, slot, n, **_: (n - tokens, tokens * slot))),
    ("pages instead of tokens", "the first answer is a number of tokens: page_size for each page.",
     _answer(change=lambda tokens, slot, page_size, **_: (tokens // page_size, tokens * slot))),
    ("a page is counted as one slot",
     "slot_bytes are the bytes of one token; a page has page_size of them.",
     _answer(change=lambda tokens, slot, page_size, **_: (tokens, tokens // page_size * slot))),
    ("saved is more than what is shared",
     "what is not shared is stored once more: only whole pages are saved.",
     _answer(change=lambda tokens, slot, matched, **_: (tokens, matched * slot))),
    ("what is stored is called saved", "saved are the bytes of what is shared; the rest is stored.",
     _answer(change=lambda tokens, slot, n, **_: (tokens, (n - tokens) * slot))),
    ("tokens instead of bytes", "a token has slot_bytes bytes of K and V.",
     _answer(change=lambda tokens, slot, **_: (tokens, tokens))),
)  # fmt: skip

EXERCISE = Exercise.of(
    "11.5",
    cases=_cases,
    truth=_answer(),
    judge=exactly,
    spared=dict.fromkeys(HARD, "compares tokens, and counts them"),
    mistakes=_MISTAKES,
)
