"""Edits that somebody makes who has another algorithm in mind: these decide whether a check holds.

The names that are true of each stand beside it, and were written before it was run. A new lesson
has words of its own: they are added when the lesson is, before its first run counts.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from mutants.blocks import blocks, is_kernel, is_launch, parameters, used, written
from mutants.edits import New, Operator, pairs
from mutants.mechanical import INFINITIES, ONCE

_KIND = "algorithmic"
_algorithmic = partial(pairs, kind=_KIND)
_NOT_MAX = (
    "not the maximum is subtracted",
    "the error is not the largest difference",  # of 12.2, where a maximum is no softmax's
    "the scale is not of the largest number",
)
_OWN_MAX = (
    "each tile uses its own maximum", "each pile uses its own maximum",
    "each block uses its own maximum", "m forgets the earlier piles",
    "m forgets the earlier blocks",
    "m is taken from a", "m is taken from b",  # of two, in 3.4
    *_NOT_MAX,
)  # fmt: skip
# a maximum that stays as it was
_OLD_MAX = (
    "m is never updated",
    "m is taken from a",
    "m is taken from b",
    *_NOT_MAX,
    "-inf makes NaN of everything",
    "exp(+inf) in the first pile",  # exp(s - m) of m = -inf
    "the past is thrown away",
    "only the last pile is counted",  # both say: or alpha is always 0
)
_SUM_LEFT = ("l is not rescaled", "l_sum is not rescaled")
_OUTPUT_LEFT = (
    "O is not rescaled",
    "nothing is rescaled",  # the sum may be a column of O
    "not divided by the sum",  # where `acc /= l_sum` is what is left out
)
_UNREACHED = ("stores every row", "writes every row of o", "writes every entry")
_EMPTY_LSE = (
    "lse of a row without keys is a large negative number", "the lse of no keys is not -inf",
    "the lse of a split without keys is not -inf",
)  # fmt: skip
_FILL = (
    *_EMPTY_LSE, "lse of a row without keys is 0",  # where that is what is filled
    "a hidden score is not -inf", "masked means a large negative score", "masked means score zero",
    "keys past the end count as score 0", "masked keys count as score 0",
    "places past the ends are not 0",
    "boundary tiles are not masked", "the mask is missing",  # 0.0 is added
    "places past the last split count",
    "a hidden score is a large negative number", "a hidden score is 0",  # 5.5
    "a hidden number is a large negative number", "a hidden number is 0",  # 6.5
)  # fmt: skip
_LAST_DROPPED = (
    "the last tile is dropped", "the short last tile is dropped",
    "the short last Q tile is dropped", "the short last step is left out",
    "the short last block is left out", "the short last part is left out", *_UNREACHED,
    "the short last tile of queries is dropped",
    "the last keys belong to no split", "the last keys are lost",  # of splits
    "every program has work",
)  # fmt: skip
_ONE_ONLY = (
    "the past is thrown away", "only the last tile counts", "only the last step counts",
    "only the last block counts", "only the last pile is counted", "O holds the last pile only",
    "only the last part counts", "only the last tile of queries counts", "nothing is rescaled",
    "l_sum holds the last pile only",
)  # fmt: skip
_SCALE = (
    "the scale is missing",
    "the last scale is missing",  # on the way back
    "only one part is scaled",  # of two, in 12.1
)
_TILES = (
    "multiplies only the tiles it must",
    "moves only what it must", "one program per block", "one program per row", "only square tiles",
    "uses the tile sizes of the call", "one program per tile", "one tile at a time",
    "takes whole tiles", "loads whole tiles", "holds tiles only", "the shape", *_UNREACHED,
)  # fmt: skip
# work that is done once too often, and where it leads
_TOO_MANY = (
    *ONCE,
    "one tile too many",
    "one block too many",
    "every load has work",
    "every program has work",
    "multiplies only the tiles it must",
    "stays inside its tensors",
    "the shape",
    "does not race",
)
_ALIGNED = (
    "the causal mask is aligned at the start", "the boundary is aligned at the start",
    "positions are aligned at the start", "the offset is ignored",
    "the loop's start is aligned at the start", "the loop's end is aligned at the start",
    "the mask is aligned at the start",  # of drafts
)  # fmt: skip
_BASES = ("base 2 and base e are mixed", "2 in place of e", "lse in base 2")


def _operator(name: str, *names: str) -> object:
    def of(change) -> Operator:  # type: ignore[no-untyped-def]
        return Operator(name, _KIND, change, frozenset(names))

    return of


# Recurrences ------------------------------------------------------------------------------------


def _rescaled(node: ast.AST) -> tuple[str, New] | None:
    """Return (name, statement without the factor) of ``T = T * alpha + ...`` and ``T *= alpha``."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Mult | ast.Div):
        return _root(node.target), []
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return None
    name = _root(node.targets[0])
    for part in ast.walk(node.value):
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mult | ast.Div):
            for kept in (part.left, part.right):
                if isinstance(kept, ast.Name | ast.Subscript) and _root(kept) == name:
                    return name, _with(node, part, kept)
    return None


def _with(tree: ast.stmt, old: ast.AST, new: ast.expr) -> ast.stmt:
    """Return a statement with one expression for another."""

    class Swap(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return new if node is place else self.generic_visit(node)

    at = list(ast.walk(tree)).index(old)
    tree = copy.deepcopy(tree)
    place = list(ast.walk(tree))[at]
    return Swap().visit(tree)  # type: ignore[no-any-return]


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_output(name: str) -> bool:
    return name in {"o", "acc", "out"} or name.startswith(("o_", "acc_"))


def _is_sum(name: str) -> bool:
    return name in {"l", "total"} or name.startswith("l_")


@_operator("the output is not rescaled", *_OUTPUT_LEFT)
def output_not_rescaled(node: ast.AST) -> Iterator[New]:
    if (found := _rescaled(node)) and _is_output(found[0]):
        yield found[1]


@_operator("the sum is not rescaled", *_SUM_LEFT)
def sum_not_rescaled(node: ast.AST) -> Iterator[New]:
    if (found := _rescaled(node)) and _is_sum(found[0]):
        yield found[1]


@_operator("nothing is rescaled", "nothing is rescaled")
def nothing_rescaled(node: ast.AST) -> Iterator[New]:
    """Leave out every factor alpha of a block."""
    for body, put in blocks(node):
        found = [(_rescaled(one) or ("", one)) for one in body]
        names = {name for name, _ in found if _is_sum(name) or _is_output(name)}
        if len(names) > 1:
            new = [x if name in names else one for one, (name, x) in zip(body, found, strict=True)]
            yield put([one for one in new if one != []])  # type: ignore[misc]


def _other_alpha(change: Callable[[ast.Call], Iterator[ast.expr]], used_for: str) -> Any:
    """Return a change of ``exp(m - m_new)`` in what is assigned to a sum, an output, or neither."""

    def of(node: ast.AST) -> Iterator[New]:
        if not isinstance(node, ast.Assign | ast.AugAssign):
            return
        name = _root(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        kind = "sum" if _is_sum(name) else "output" if _is_output(name) else "both"
        for part in ast.walk(node.value) if kind == used_for else ():
            if _of_two_maxima(part) is not None:
                for new in change(part):  # type: ignore[arg-type]
                    yield _with(node, part, new)

    return of


def _one(call: ast.Call) -> Iterator[ast.expr]:
    """Yield 1 in the shape of alpha: exp(0 * max(m, 0)), since 0 * -inf is NaN."""
    old, _ = _of_two_maxima(call)  # type: ignore[misc]
    module = call.func.value if isinstance(call.func, ast.Attribute) else None
    larger: ast.expr = ast.Name("max", ast.Load())
    if isinstance(module, ast.Name) and module.id != "math":
        larger = ast.Attribute(module, "maximum", ast.Load())
    above = ast.Call(larger, [old, ast.Constant(0.0)], [])
    yield ast.Call(call.func, [ast.BinOp(ast.Constant(0.0), ast.Mult(), above)], [])


def _inverted(call: ast.Call) -> Iterator[ast.expr]:
    old, new = _of_two_maxima(call)  # type: ignore[misc]
    yield ast.Call(call.func, [ast.BinOp(new, ast.Sub(), old)], [])


_ONE_SIDE = ("only a is rescaled", "only b is rescaled")  # of two, in 3.4
_INVERTED = (
    "alpha is inverted", "-inf makes NaN of everything", "exp(+inf) in the first pile",
    "one factor is upside down",
)  # fmt: skip
_ALPHAS = tuple(
    Operator(f"{name}{where}", _KIND, _other_alpha(change, kind), frozenset(names))
    for kind, where, left in (
        ("both", "", ("nothing is rescaled", *_ONE_SIDE, "l_sum is not rescaled")),
        ("sum", " for the sum", _SUM_LEFT),
        ("output", " for the output", _OUTPUT_LEFT),
    )
    for name, change, names in (
        ("alpha is 1", _one, left),
        ("alpha is inverted", _inverted, _INVERTED),
    )
)


def _of_two_maxima(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """Return (a, b) of ``exp(a - b)`` where both are maxima: names that begin with m."""
    if not isinstance(node, ast.Call) or len(node.args) != 1:
        return None
    inner = node.args[0]
    if not ast.unparse(node.func).endswith(("exp", "exp2")) or not isinstance(inner, ast.BinOp):
        return None
    both = _root(inner.left), _root(inner.right)
    maxima = all(name.startswith("m") or name in {"base", "top"} for name in both)
    return (inner.left, inner.right) if maxima and isinstance(inner.op, ast.Sub) else None


@_operator("the past is thrown away", *_ONE_ONLY)
def past_thrown_away(node: ast.AST) -> Iterator[New]:
    """In a loop, ``T = ...`` in place of ``T += ...`` or of ``T = T * alpha + ...``."""
    yield from _set_anew(node, lambda name: _is_sum(name) or _is_output(name))


@_operator("a count is set anew")
def count_set_anew(node: ast.AST) -> Iterator[New]:
    """The same with numbers that are no sum of a softmax or a product."""
    yield from _set_anew(node, lambda name: not (_is_sum(name) or _is_output(name)))


def _set_anew(node: ast.AST, wanted: Callable[[str], bool]) -> Iterator[New]:
    if not isinstance(node, ast.For | ast.While):
        return
    for i, one in enumerate(node.body):
        new = _without_past(one)
        if new is not None and any(map(wanted, written(one))):
            changed = copy.copy(node)
            changed.body = [*node.body[:i], new, *node.body[i + 1 :]]
            yield changed


def _without_past(node: ast.stmt) -> ast.stmt | None:
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        return ast.Assign([node.target], node.value)
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
        left, right = node.value.left, node.value.right
        if isinstance(node.value.op, ast.Add) and _root(node.targets[0]) in used(left):
            return ast.Assign(node.targets, right)
    return None


@_operator("the output is divided in every tile", "divided in every tile",
           "divided after every pile", "divided after every pile and again at the end")  # fmt: skip
def divided_each(node: ast.AST) -> Iterator[New]:
    """Do what stands after the loop (a division) at the end of each step as well."""
    for body, put in blocks(node):
        for i, loop in enumerate(body[:-1]):
            if not isinstance(loop, ast.For | ast.While):
                continue
            for part in ast.walk(body[i + 1]):
                if (
                    isinstance(part, ast.BinOp)
                    and isinstance(part.op, ast.Div)
                    and (isinstance(part.left, ast.Name) and part.left.id in written(loop))
                ):
                    more = ast.Assign([ast.Name(part.left.id, ast.Store())], part)
                    changed = copy.deepcopy(loop)
                    changed.body.append(more)
                    yield put([*body[:i], changed, *body[i + 1 :]])


# Passes, launches, copies -----------------------------------------------------------------------


@_operator("one more pass", *ONCE)
def one_more_pass(node: ast.AST) -> Iterator[New]:
    """Run a loop twice, its notes set anew in between."""
    for body, put in blocks(node):
        for i, loop in enumerate(body):
            if not isinstance(loop, ast.For):  # a while is over when it is met again
                continue
            start = i
            while start and _is_plain(body[start - 1]):
                start -= 1
            again = [one for one in body[start:i] if written(one) & written(loop)]
            if again:
                yield put([*body[: i + 1], *again, *body[i:]])


def _is_plain(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and not written(node) & used(node)


@_operator("the maximum of all is found first", *ONCE)
def maximum_first(node: ast.AST) -> Iterator[New]:
    """Run a loop for its maximum only, then once more with that."""
    for body, put in blocks(node):
        for i, loop in enumerate(body):
            first = not any(isinstance(b, ast.For | ast.While) for b in body[:i])
            if not isinstance(loop, ast.For) or not first:
                continue
            notes = [b for b in body[:i] if _is_plain(b) and written(b) & written(loop)]
            if any(len(written(b)) > 1 for b in notes):  # m is set beside what is set anew
                continue
            notes = [b for b in notes if not any(n.startswith("m") for n in written(b))]
            if notes and any(n.startswith("m") for n in written(loop)):
                yield put([*body[: i + 1], *notes, *body[i:]])


@_operator("what follows the loop is done in every step", *ONCE, "stores o once",
           "divided in every tile", "divided after every pile",
           "divided after every pile and again at the end")  # fmt: skip
def after_each_step(node: ast.AST) -> Iterator[New]:
    for body, put in blocks(node):
        for i, loop in enumerate(body[:-1]):
            rest = [one for one in body[i + 1 :] if not isinstance(one, ast.Return)]
            again = any(isinstance(one, ast.For | ast.While) for one in rest)
            if isinstance(loop, ast.For | ast.While) and rest and not again:
                changed = copy.deepcopy(loop)
                changed.body += copy.deepcopy(rest)
                yield put([*body[:i], changed, *body[i + 1 :]])


@_operator("what precedes the loop is done in every step", *ONCE)
def before_each_step(node: ast.AST) -> Iterator[New]:
    """Load in each step what could be loaded once."""
    for body, put in blocks(node):
        for i, loop in enumerate(body):
            if isinstance(loop, ast.For | ast.While):
                for one in body[:i]:
                    if _is_plain(one) and "load" in ast.unparse(one):
                        changed = copy.deepcopy(loop)
                        changed.body.insert(0, one)
                        yield put([*body[:i], changed, *body[i + 1 :]])


@_operator("the inputs are copied")
def copied_inputs(node: ast.AST) -> Iterator[New]:
    """Begin a launcher, or a function that takes arrays, with copies."""
    if not isinstance(node, ast.FunctionDef) or is_kernel(node):
        return
    launches = any(is_launch(n) for n in ast.walk(node))
    for name in parameters(node):
        if launches and len(name) <= 2:
            yield _beginning(node, f"{name} = {name}.clone()")


@_operator("a tensor as large as the scores is allocated", "needs memory linear in N")
def scores_allocated(node: ast.AST) -> Iterator[New]:
    launches = any(is_launch(n) for n in ast.walk(node))
    if isinstance(node, ast.FunctionDef) and launches and {"q", "k"} <= set(parameters(node)):
        yield _beginning(node, "s = torch.empty(*q.shape[:-1], k.shape[-2], device=q.device)")


def _beginning(node: ast.FunctionDef, text: str) -> ast.FunctionDef:
    changed = copy.copy(node)
    changed.body = [*ast.parse(text).body, *node.body]
    return changed


@_operator("another tile size than the call's", *_TILES)
def other_tile(node: ast.AST) -> Iterator[New]:
    works = any(word in ast.unparse(node) for word in ("@", "load", "["))
    if isinstance(node, ast.FunctionDef) and not is_kernel(node) and works:
        sizes = [p for p in parameters(node) if p.startswith("block") or p == "tile"]
        for size in sizes:
            for value in ("16", "32", "64", f"2 * {size}", *(o for o in sizes if o != size)):
                yield _beginning(node, f"{size} = {value}")


@_operator("one program more", *_TOO_MANY)
def one_program_more(node: ast.AST) -> Iterator[New]:
    if is_launch(node):
        grid = node.value.func.slice  # type: ignore[attr-defined]
        for i, size in enumerate(getattr(grid, "elts", [])):
            changed = copy.deepcopy(node)
            elts = changed.value.func.slice.elts  # type: ignore[attr-defined]
            elts[i] = ast.BinOp(size, ast.Add(), ast.Constant(1))
            yield changed


# Maxima, masks, strides -------------------------------------------------------------------------


@_operator("no maximum is subtracted", "no maximum is subtracted",
           "lse is not used")  # fmt: skip  # in 7.5 the maximum is lse
def no_maximum(node: ast.AST) -> Iterator[New]:
    if (scores := _of_scores(node)) is not None:
        yield ast.Call(node.func, [scores], [])  # type: ignore[attr-defined]


@_operator("scores are clipped, not shifted", "scores are clipped, not shifted",
           "no maximum is subtracted",
           "m is added but was not subtracted")  # fmt: skip  # where m + log(...) stays
def clipped(node: ast.AST) -> Iterator[New]:
    if (scores := _of_scores(node)) is not None:
        function = node.func  # type: ignore[attr-defined]
        if isinstance(function, ast.Attribute):
            least: ast.expr = ast.Attribute(function.value, "minimum", ast.Load())
            if ast.unparse(function.value) == "math":
                least = ast.Name("min", ast.Load())
            yield ast.Call(function, [ast.Call(least, [scores, ast.Constant(80.0)], [])], [])


def _of_scores(node: ast.AST) -> ast.expr | None:
    """Return the scores of ``exp(scores - maximum)``, None if this is nothing of the kind."""
    if not isinstance(node, ast.Call) or len(node.args) != 1 or _of_two_maxima(node) is not None:
        return None
    inner = node.args[0]
    if not ast.unparse(node.func).endswith(("exp", "exp2")) or not isinstance(inner, ast.BinOp):
        return None
    top = ast.unparse(inner.right)
    of_maximum = top.startswith(("m", "base", "top")) or "max" in top
    return inner.left if of_maximum and isinstance(inner.op, ast.Sub) else None


_NUMBERS = (0.0, -1e4, -1e6, -1e9, -1e30)


@_operator("the maximum starts at a number", "a very negative maximum is replaced",
           "the maximum does not start at -inf", *_EMPTY_LSE)  # fmt: skip
def starts_at_a_number(node: ast.AST) -> Iterator[New]:
    guards = any(isinstance(n, ast.Compare) for n in ast.walk(node))
    if (
        isinstance(node, ast.Assign)
        and not guards
        and not written(node) & used(node)
        and any(n[0] == "m" for n in written(node))
    ):
        for part in ast.walk(node.value):
            if isinstance(part, ast.expr) and ast.unparse(part) in INFINITIES:
                for number in _NUMBERS:
                    yield _with(node, part, ast.Constant(number))


@_operator("hidden scores are a number", *_FILL,
           "stays inside its tensors")  # fmt: skip  # where -inf says that there is nothing to load
def filled_with_a_number(node: ast.AST) -> Iterator[New]:
    """Fill with a number, not with -inf: in a `where`, or where a load is masked."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("where"):
        for i in (1, 2):
            if len(node.args) == 3 and ast.unparse(node.args[i]) in INFINITIES:
                for number in _NUMBERS:
                    args = [*node.args[:i], ast.Constant(number), *node.args[i + 1 :]]
                    yield ast.Call(node.func, args, node.keywords)
    masked = isinstance(node, ast.keyword) and node.arg == "other"
    if masked and ast.unparse(node.value) in INFINITIES:
        for number in _NUMBERS:
            yield ast.keyword("other", ast.Constant(number))


@_operator("a stride is left out", "the column stride is missing", "the row stride is missing",
           *_UNREACHED)  # fmt: skip
def column_stride(node: ast.AST) -> Iterator[New]:
    """Take ``rows[:, None]`` for ``rows[:, None] * stride_row``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for index, stride in ((node.left, node.right), (node.right, node.left)):
            is_stride = any(x in _root(stride) for x in ("row", "col", "stride", "_s", "DIM"))
            if isinstance(index, ast.Subscript) and is_stride and "None" in ast.unparse(index):
                yield index


def _running(node: ast.AST) -> tuple[ast.expr, ast.expr, Callable[..., ast.expr]] | None:
    """Return (old, new, call) of ``maximum(m, the tile's)``, whichever stands first."""
    if not isinstance(node, ast.Call) or len(node.args) != 2 or node.keywords:
        return None
    if ast.unparse(node.func).rpartition(".")[2] not in ("maximum", "max"):
        return None
    plain = [isinstance(x, ast.Name | ast.Subscript) for x in node.args]
    if not any(plain) or any(
        isinstance(x, ast.Constant | ast.BinOp | ast.UnaryOp) for x in node.args
    ):
        return None
    old, new = node.args if plain[0] else node.args[::-1]
    return old, new, lambda *args: ast.Call(node.func, list(args), [])


def _of_maximum(name: str, *names: str, new: Callable[..., str]) -> Operator:
    """Return the operator that puts ``new(old, tile's, function)`` for a running maximum."""

    def change(node: ast.AST) -> Iterator[New]:
        if (parts := _running(node)) is not None:
            old, tiles, _ = parts
            module = ast.unparse(node.func).rpartition(".")[0]  # type: ignore[attr-defined]
            text = new(ast.unparse(old), ast.unparse(tiles), module)
            yield ast.parse(text, mode="eval").body

    return Operator(name, _KIND, change, frozenset(names))


def _first_stays(old: str, new: str, module: str) -> str:
    if module:
        return f'{module}.where({old} == float("-inf"), {new}, {old})'
    return f'{new} if {old} == float("-inf") else {old}'


def _zero_at_least(old: str, new: str, module: str) -> str:
    inner = f"{module}.maximum({old}, {new})"
    return f"{module}.maximum({inner}, 0.0)" if module else f"max(0.0, {old}, {new})"


_MAXIMA = (
    _of_maximum("the first tile's maximum stays", *_OLD_MAX, new=_first_stays),
    _of_maximum("the tile's own maximum", *_OWN_MAX, new=lambda old, new, _: new),
    _of_maximum("the old maximum", *_OLD_MAX, new=lambda old, new, _: old),
    _of_maximum(
        "the maximum is 0 at least", "a very negative maximum is replaced", new=_zero_at_least
    ),
)


@_operator("only the first tile", "only the first tile of keys counts",
           "only the first tile is counted", "only the first pile is counted",
           "only the first step counts", "only the first block counts",
           "every step reads the first tiles", "only the first Q tile is written",
           "every step reads the first tile of a", "every step reads the first tile of b",
           "every program works on the first rows", "every program works on the first columns",
           "every step reads the first block", "only the first tile of queries counts",
           "a split takes one tile only", "every step reads the first tile of K, or of V",
           *_UNREACHED)  # fmt: skip
def only_first(node: ast.AST) -> Iterator[New]:
    """Begin every tile at 0, or end a loop that computes after its first step."""
    if isinstance(node, ast.For) and isinstance(node.iter, ast.Call):
        computes = any(word in ast.unparse(node) for word in ("exp", "dot", " @ "))
        first, *rest = node.iter.args or [None]
        begins = isinstance(first, ast.Constant) and first.value == 0 and len(rest) == 2
        if computes and ast.unparse(node.iter.func) == "range" and begins:
            changed = copy.copy(node)
            changed.iter = ast.Call(node.iter.func, [first, rest[1], rest[1]], [])
            yield changed
    is_sum = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
    if is_sum and ast.unparse(node.right).startswith("tl.arange(0"):  # type: ignore[attr-defined]
        yield node.right  # type: ignore[attr-defined]


@_operator("K is reshaped, not transposed", "K is reshaped, not transposed",
           "k is reshaped, not transposed", "the tile is not turned")  # fmt: skip
def k_reshaped(node: ast.AST) -> Iterator[New]:
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "tl.trans":
        tile = ast.unparse(node.args[0])
        new = f"tl.reshape({tile}, {tile}.shape[1], {tile}.shape[0])"
    elif isinstance(node, ast.Attribute) and node.attr == "T":
        tile = ast.unparse(node.value)
        new = f"{tile}.reshape({tile}.shape[::-1])"
    else:
        return
    if _root(node.args[0] if isinstance(node, ast.Call) else node.value).startswith("k"):
        yield ast.parse(new, mode="eval").body


@_operator("the wrong heads share", "the wrong heads share",
           "the length of another sequence",  # where the quotient is a sequence's number
           "heads take turns instead of sharing with their neighbours")  # fmt: skip
def wrong_heads(node: ast.AST) -> Iterator[New]:
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.FloorDiv):
        return
    if "head" in ast.unparse(node.left) and "head" not in ast.unparse(node.right):
        yield ast.BinOp(node.left, ast.Mod(), node.right)


@_operator("all heads read the first head", "all heads read the first head",
           "all batches read the first batch", *_UNREACHED)  # fmt: skip
def first_head(node: ast.AST) -> Iterator[New]:
    """Put 0 for a program's number where that becomes a head or a batch."""
    if isinstance(node, ast.Assign) and any("head" in n or "batch" in n for n in written(node)):
        for part in ast.walk(node.value):
            if isinstance(part, ast.expr) and ast.unparse(part) == "tl.program_id(1)":
                yield _with(node, part, ast.Constant(0))


# Precision --------------------------------------------------------------------------------------


@_operator("the output is kept in half precision", "O is kept in half precision", "half precision")
def half_output(node: ast.AST) -> Iterator[New]:
    yield from _half(node, _is_output)


@_operator("the sum is kept in half precision", "l is kept in half precision", "half precision")
def half_sum(node: ast.AST) -> Iterator[New]:
    yield from _half(node, _is_sum)


def _half(node: ast.AST, wanted: Callable[[str], bool]) -> Iterator[New]:
    """Round one note of a loop to float16 in every step."""
    if isinstance(node, ast.For | ast.While):
        triton = "tl." in ast.unparse(node)
        for name in sorted(filter(wanted, _carried(node))):
            rounded = f"{name}.to(tl.float16).to(tl.float32)" if triton else f"np.float16({name})"
            changed = copy.copy(node)
            changed.body = [*node.body, *ast.parse(f"{name} = {rounded}").body]
            yield changed


def _carried(loop: ast.For | ast.While) -> set[str]:
    """Return the names that a loop carries from step to step, with a plus."""
    return {
        name
        for one in loop.body
        if _without_past(one) is not None
        for name in written(one)
        if len(name) > 1 and name not in {"start", "keys"}
    }


_FLOATS = ("float64", "float32")
_PRECISION = (
    ("X.float32", "X.float16"), ("X.float64", "X.float32"), ("X.float64", "X.float16"),
    ("X.to(Y.dtype)", "X.to(tl.float16)"), ("X.to(Y.dtype.element_ty)", "X.to(tl.float16)"),
)  # fmt: skip
_IEEE = (
    ('X.dot(*A, input_precision="ieee")', "X.dot(*A)"),
    ('X.dot(*A, input_precision="ieee")', 'X.dot(*A, input_precision="tf32")'),
    ('X.dot(*A, input_precision="ieee")', "X.dot(*A, allow_tf32=True)"),
)

OPERATORS: tuple[Operator, ...] = (
    output_not_rescaled, sum_not_rescaled, nothing_rescaled, *_ALPHAS, past_thrown_away,
    count_set_anew, divided_each, one_more_pass, maximum_first, after_each_step,
    before_each_step, no_maximum, clipped, starts_at_a_number, filled_with_a_number, column_stride,
    copied_inputs, scores_allocated, other_tile, one_program_more, half_output, half_sum,
    *_MAXIMA, only_first, k_reshaped, wrong_heads, first_head,
    _algorithmic("the minimum for the maximum", *_NOT_MAX, "the smallest, not the largest",
                 "the minimum is taken",
                 "the smaller maximum is taken", of=(
        ("X.max(*A, **K)", "X.min(*A, **K)"), ("X.amax(*A, **K)", "X.amin(*A, **K)"),
    )),
    _algorithmic("the mean for the maximum", *_NOT_MAX, "the mean, not the maximum", of=(
        ("tl.max(S, A)", "tl.sum(S, A) / S.shape[A]"),
        ("S.max(*A, **K)", "S.mean(*A, **K)"),
    )),
    _algorithmic("the first score for the maximum", *_NOT_MAX,
                 "masks only boundary tiles",  # who chooses it here compares all keys of a tile
                 "the shape",  # of many axes the first is no number
                 "the first, not the largest",
                 of=(
        ("tl.max(S, 1)", "tl.sum(tl.where(tl.arange(0, S.shape[1])[None, :] == 0, S, 0.0), 1)"),
        ("tl.max(S, 0)", "tl.sum(tl.where(tl.arange(0, S.shape[0]) == 0, S, 0.0), 0)"),
        ("S.max()", "S[0]"), ("np.max(S)", "S[0]"),
        ("S.max(axis=1)", "S[:, 0]"), ("S.max(1)", "S[:, 0]"),
        ("S.max(axis=1, keepdims=True)", "S[:, :1]"), ("S.max(1, keepdims=True)", "S[:, :1]"),
    )),
    _algorithmic("one maximum for all rows", *_NOT_MAX, "one maximum for the whole tile",
                 "one maximum for the whole chart", of=(
        ("tl.max(S, 1)", "tl.max(S)"), ("S.max(axis=1)", "S.max()"), ("S.max(1)", "S.max()"),
        ("S.max(axis=1, keepdims=True)", "S.max()"), ("S.max(1, keepdims=True)", "S.max()"),
    )),
    _algorithmic("rows without a key are not guarded", "rows without a key are not guarded",
                 "a pile without keys gives NaN", "a tile without keys gives NaN",
                 "parts without keys give NaN", "a split without keys is not guarded",
                 "a sequence without a key is not guarded", of=(
        ('X.where(M == float("-inf"), 0.0, M)', "M"), ("X.where(L == 0.0, 1.0, L)", "L"),
        ("0.0 if M == -np.inf else M", "M"),
    )),
    _algorithmic("the scale is missing", *_SCALE, of=(
        ("S * scale", "S"), ("S / np.sqrt(D)", "S"), ("S / D**0.5", "S"), ("D**-0.5", "1.0"),
        ("S * D**-0.5", "S"),
    )),
    _algorithmic("scaled twice", "scaled twice", "scaled twice on the way back",
                 # where log2(e) is in the scale, it is there twice as well
                 "scaled twice; base 2 and base e are mixed", of=(
        ("S * scale", "S * scale * scale"), ("S / np.sqrt(D)", "S / D"), ("D**-0.5", "1 / D"),
    )),
    _algorithmic("the scale is upside down", "the scale is upside down", of=(
        ("S * scale", "S / scale"), ("S / np.sqrt(D)", "S * np.sqrt(D)"), ("D**-0.5", "D**0.5"),
    )),
    _algorithmic("base 2", *_BASES, "the logarithm has base 2", "log2 where ln is meant", of=(
        ("X.exp(A)", "X.exp2(A)"), ("X.log(A)", "X.log2(A)"),
    )),
    _algorithmic("another alignment", *_ALIGNED,
                 "the offset of the causal mask has the wrong sign",
                 "multiplies only the tiles it must",
                 "the causal mask is one key too strict", "the causal loop ends too early",
                 "the loop ends too early", "the loop begins too late",
                 "the boundary tiles are left out", *ONCE,
                 "masks only boundary tiles",  # where what all rows see ends too early
                 of=(
        ("R + n_k - n_q", "R"), ("R + n_k - n_q", "R + n_q - n_k"),
        ("R + n_k - n_q", "R + n_k - n_q - 1"), ("n_k - n_q", "0"), ("n_k - n_q", "n_q - n_k"),
    )),
    _algorithmic("never causal", "the mask is missing", *ONCE, "masks only boundary tiles", of=(
        ("F(*A, CAUSAL=C, **K)", "F(*A, CAUSAL=False, **K)"),
    )),
    _algorithmic("always causal", "a causal mask that nobody asked for",
                 "the causal mask is always there", *ONCE, of=(
        ("F(*A, CAUSAL=C, **K)", "F(*A, CAUSAL=True, **K)"),
    )),
    _algorithmic("nothing is skipped", *ONCE, "the loop over the keys makes no step",
                 "masks only boundary tiles",  # where it says how many keys all rows see
                 of=(
        ("X.minimum(n_k, A)", "n_k"), ("min(n_k, A)", "n_k"), ("X.maximum(A, 0)", "0"),
    )),
    _algorithmic("the last tile is dropped", *_LAST_DROPPED, of=(
        ("X.cdiv(A, B)", "A // B"), ("-(-A // B)", "A // B"), ("math.ceil(A / B)", "A // B"),
        ("range(0, N, B)", "range(0, N - B + 1, B)"),
    )),
    _algorithmic("a tile too many", *_TOO_MANY,
                 "another share of the keys",  # of splits: each has a key more, and none is lost
                 of=(
        ("X.cdiv(A, B)", "A // B + 1"), ("range(0, N, B)", "range(0, N + B, B)"),
    )),
    _algorithmic("the mask is left out", "the mask is missing", "nothing is hidden", *_FILL,
                 "the mask comes after the maximum", of=(  # where the weights are masked as well
        ("S = X.where(C, S, F)", "S = S"),
    )),
    _algorithmic("strides are ignored", "strides are ignored",
                 "the strides of Q are ignored", "the strides of K are ignored",
                 "the strides of V are ignored",
                 "stays inside its tensors",  # those that lie further apart
                 of=(("X.contiguous()", "X"),)),
    _algorithmic("lse is told otherwise", "lse is m", "lse is only l", "lse is ln(l)",
                 "lse is m + l", "lse is ln(total)", "lse is m + total", "the sum alone",
                 "not divided by the sum",  # where weights are exp(s - lse)
                 "the maximum is missing", "the logarithm is missing",
                 "the lse of the parts is not merged",
                 "the sum is missing", of=(
        ("M + X.log(L)", "M"), ("M + X.log(L)", "L"), ("M + X.log(L)", "X.log(L)"),
        ("M + X.log(L)", "M + L"),
    )),
    _algorithmic("another precision", "O is kept in half precision", "half precision",
                 "two dtypes meet in tl.dot", "another dtype where float32 is wanted",
                 "the dtype", "the scores are rounded to float16",
                 "-inf makes NaN of everything",  # -3.4e38, which m starts at, is -inf in float16
                 "the maximum does not start at -inf",  # nor is float32's least float64's
                 "compiles for a GPU",  # which wants one type of what a loop carries
                 of=_PRECISION),
    _algorithmic("tf32", of=_IEEE),
)  # fmt: skip
