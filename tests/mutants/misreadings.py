"""Edits of who meets whom, of what the notes become at the end, and of whose sizes are taken.

The names that are true of each were written before any of them was run. A new lesson has words of
its own: they are added when the lesson is, before its first run counts. Families of known mistakes
have been added where a run left these unnamed: another seed says what a student may expect.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from functools import partial

from mutants.blocks import is_launch, used, written
from mutants.edits import New, Operator, pairs
from mutants.mechanical import ONCE

_KIND = "algorithmic"
_pairs = partial(pairs, kind=_KIND)
_STRICT = (
    "the causal mask is one key too strict", "the window is one key too short",
)  # fmt: skip
_GENEROUS = (
    "the causal mask is one key too generous", "the window is one key too long",
    "the window looks into the future",
)  # fmt: skip


def _operator(name: str, *names: str) -> object:
    def of(change) -> Operator:  # type: ignore[no-untyped-def]
        return Operator(name, _KIND, change, frozenset(names))

    return of


def _causal(node: ast.AST) -> tuple[bool, ast.Compare] | None:
    """Return whether keys stand left, and the comparison of the keys' positions with the rows'."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return None
    left, right = (ast.unparse(x) for x in (node.left, node.comparators[0]))
    if isinstance(node.ops[0], ast.LtE) and "key" in left and "row" in right:
        return True, node
    if isinstance(node.ops[0], ast.GtE) and "row" in left and "key" in right:
        return False, node
    return None


@_operator("a query does not see its own key", *_STRICT)
def too_strict(node: ast.AST) -> Iterator[New]:
    if (found := _causal(node)) is not None:
        first, compare = found
        yield ast.Compare(compare.left, [ast.Lt() if first else ast.Gt()], compare.comparators)


@_operator("a query sees the next key", *_GENEROUS)
def too_generous(node: ast.AST) -> Iterator[New]:
    if (found := _causal(node)) is not None:
        first, compare = found
        one = ast.Constant(1 if first else -1)
        more = ast.BinOp(compare.comparators[0], ast.Add(), one)
        yield ast.Compare(compare.left, compare.ops, [more])


@_operator("the causal mask is turned round", "the causal mask is reversed")
def turned_round(node: ast.AST) -> Iterator[New]:
    if (found := _causal(node)) is not None:
        first, compare = found
        yield ast.Compare(compare.left, [ast.GtE() if first else ast.LtE()], compare.comparators)


@_operator("m is not carried on", "the past is thrown away", "m is never updated",
           "only the last pile is counted", "only the last block counts",
           "each tile's output is written")  # fmt: skip  # which says: or m is not carried on
def not_carried_on(node: ast.AST) -> Iterator[New]:
    """Leave ``m = m_new`` out of a loop."""
    for i, one in enumerate(node.body if isinstance(node, ast.For) else ()):
        name = isinstance(one, ast.Assign) and isinstance(one.value, ast.Name) and one.value.id
        if name and name.startswith("m") and any(n.startswith("m") for n in written(one)):
            changed = copy.copy(node)
            changed.body = [*node.body[:i], *node.body[i + 1 :]]  # type: ignore[attr-defined]
            yield changed


@_operator("what is new is rescaled as well", "the new tile is rescaled as well",
           "the new pile is rescaled as well", "the new block is rescaled as well",
           "only the last pile is counted")  # fmt: skip  # alpha is 0 in the first
def new_rescaled(node: ast.AST) -> Iterator[New]:
    """Take ``(T + P) * alpha`` for ``T * alpha + P``."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.BinOp):
        return
    old, new = node.value.left, node.value.right
    if not isinstance(node.value.op, ast.Add) or not isinstance(old, ast.BinOp):
        return
    if isinstance(old.op, ast.Mult) and written(node) & used(old):
        for total, alpha in ((old.left, old.right), (old.right, old.left)):
            if written(node) & used(total) and not written(node) & used(alpha):
                both = ast.BinOp(total, ast.Add(), new)
                yield ast.Assign(node.targets, ast.BinOp(both, ast.Mult(), alpha))


@_operator("another tensor's strides", "the strides of another tensor", "strides are ignored",
           "the strides of Q are ignored", "the strides of K are ignored",
           "the strides of V are ignored", "the strides of O are ignored",
           "K is read at the wrong stride", "V is read at the wrong stride",
           "stays inside its tensors", "stores every row")  # fmt: skip
def other_strides(node: ast.AST) -> Iterator[New]:
    if is_launch(node):
        call = node.value  # type: ignore[attr-defined]
        texts = [ast.unparse(one) for one in call.args]
        given = [t for t in texts if t.startswith("*") and t.endswith(".stride()")]
        for text in given:
            for other in given:
                if text != other:
                    changed = copy.deepcopy(node)
                    at = texts.index(text)
                    changed.value.args[at] = ast.parse(f"f({other})").body[0].value.args[0]  # type: ignore
                    yield changed


OPERATORS: tuple[Operator, ...] = (
    too_strict, too_generous, turned_round, not_carried_on, new_rescaled, other_strides,
    _pairs("not divided at the end", "not divided", "not divided by the sum",
           "a part is not divided by its sum",
           of=(("A / l_sum", "A"), ("A / l_sum[:, None]", "A"), ("A / l_safe[:, None]", "A"))),
    _pairs("K for V", "K is read in place of V", "the values are read from K's pages", of=(
        ("P @ v_tile", "P @ k_tile"), ("tl.dot(P, v_tile, **K)", "tl.dot(P, k_tile, **K)"),
    )),
    _pairs("n_q for n_k", "the loop ends at n_q", "one length for Q and K", "n_q in place of n_k",
           *ONCE, "stays inside its tensors", of=(("range(0, n_k, B)", "range(0, n_q, B)"),)),
    _pairs("scaled by a number of rows", "scaled by a length, not by head_dim",
           "scaled by the number of tokens", of=(
        ("np.sqrt(d)", "np.sqrt(len(k))"), ("np.sqrt(q.shape[1])", "np.sqrt(len(k))"),
    )),
    _pairs("lse is handed in to base 2", "lse in base 2", of=(
        ("m + tl.log(L)", "(m + tl.log(L)) * 1.44269504"),
    )),
    _pairs("the logarithm of both", "lse is ln(m + l)", "m + l_sum in the logarithm", of=(
        ("m + tl.log(L)", "tl.log(m + L)"),
    )),
)  # fmt: skip
