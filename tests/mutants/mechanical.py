"""Edits that anybody could make to any program: leave out, exchange, offset by one, do twice."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from functools import partial

from mutants.blocks import blocks, independent, is_launch, is_load, used, written
from mutants.edits import Change, New, Operator, names_beside, pairs

_KIND = "mechanical"
OUT = "stays inside its tensors"
ONCE = (
    "moves only what it must", "loads each number once", "loads q once", "loads k once per Q tile",
    "loads v once per Q tile", "one pile at a time", "skips tiles that see nothing",
    "reads each pile once", "loads k once", "loads v once", "loads what is seen, once",
    "one tile at a time", "reads each cached number once", "reads each cached byte once",
)  # fmt: skip
_mechanical = partial(pairs, kind=_KIND)


def _operator(name: str, *names: str) -> object:
    """Decorate a function that yields what may stand in a node's place."""

    def of(change: Change) -> Operator:
        return Operator(name, _KIND, change, frozenset(names))

    return of


def _without(keyword: str, name: str, *names: str) -> Operator:
    """Return the operator that leaves out one argument of any call."""

    def change(node: ast.AST) -> Iterator[New]:
        if isinstance(node, ast.Call) and any(k.arg == keyword for k in node.keywords):
            kept = [k for k in node.keywords if k.arg != keyword]
            yield ast.Call(node.func, node.args, kept)

    return Operator(name, _KIND, change, frozenset(names))


@_operator("drop a line")
def drop_a_line(node: ast.AST) -> Iterator[New]:
    if isinstance(node, ast.Assign | ast.AugAssign) or is_launch(node):
        yield []


@_operator("a condition always holds, or never")
def constant_condition(node: ast.AST) -> Iterator[New]:
    if isinstance(node, ast.If):
        yield node.body
        yield node.orelse


@_operator("swap the operands")
def swap_operands(node: ast.AST) -> Iterator[New]:
    if isinstance(node, ast.BinOp) and isinstance(
        node.op, ast.Sub | ast.Div | ast.FloorDiv | ast.Mod | ast.MatMult | ast.Pow
    ):
        yield ast.BinOp(node.right, node.op, node.left)


_OTHER = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mod,
    ast.Mod: ast.FloorDiv, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


@_operator("another operation")
def other_operation(node: ast.AST) -> Iterator[New]:
    if isinstance(node, ast.BinOp) and type(node.op) in _OTHER:
        yield ast.BinOp(node.left, _OTHER[type(node.op)](), node.right)


@_operator("one operand of two")
def one_operand(node: ast.AST) -> Iterator[New]:
    if isinstance(node, ast.BinOp):
        yield from (node.left, node.right)


_COMPARISONS = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt), ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,),
}  # fmt: skip


@_operator("another comparison")
def other_comparison(node: ast.AST) -> Iterator[New]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for kind in _COMPARISONS.get(type(node.ops[0]), ()):
            yield ast.Compare(node.left, [kind()], node.comparators)


@_operator("a bound is off by one")
def off_by_one(node: ast.AST) -> Iterator[New]:
    """Move what a comparison, a range or a minimum ends with by one."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for new in _moved(node.comparators[0]):
            yield ast.Compare(node.left, node.ops, [new])
    called = isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2]
    if called in {"range", "cdiv", "minimum", "min", "maximum", "arange"}:
        for i, argument in enumerate(node.args):
            for new in _moved(argument):
                yield ast.Call(node.func, [*node.args[:i], new, *node.args[i + 1 :]], node.keywords)


INFINITIES = {"float('-inf')", "-np.inf", "-math.inf", "-torch.inf"}


def _moved(node: ast.expr) -> Iterator[ast.expr]:
    written = ast.unparse(node)
    vast = written in INFINITIES or "e+" in written  # no float is between them and the next
    if not (vast or isinstance(node, ast.Starred | ast.GeneratorExp)):
        yield ast.BinOp(node, ast.Add(), ast.Constant(1))
        yield ast.BinOp(node, ast.Sub(), ast.Constant(1))


@_operator("another constant")
def other_constant(node: ast.AST) -> Iterator[New]:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield ast.Constant(node.value + 1 if abs(node.value) < 100 else node.value * 2)
        if node.value:
            yield ast.Constant(type(node.value)(0))


@_operator("the other axis")
def other_axis(node: ast.AST) -> Iterator[New]:
    """Exchange axis 0 and 1, a row and a column."""
    if isinstance(node, ast.keyword) and node.arg in {"axis", "dim"}:
        if isinstance(node.value, ast.Constant) and node.value.value in (0, 1):
            yield ast.keyword(node.arg, ast.Constant(1 - node.value.value))
        else:
            yield ast.keyword(node.arg, ast.Constant(0))
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[-1], ast.Constant):
        called, axis = ast.unparse(node.func).rpartition(".")[2], node.args[-1].value
        if called in {"max", "sum", "program_id", "stride", "min"} and axis in (0, 1):
            yield ast.Call(node.func, [*node.args[:-1], ast.Constant(1 - axis)], node.keywords)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        written = ast.unparse(node.slice)
        if written in {"(:, None)", "(None, :)", ":, None", "None, :"}:
            yield ast.Subscript(node.value, ast.Tuple(node.slice.elts[::-1]), node.ctx)


@_operator("another name that looks alike")
def other_name(node: ast.AST) -> Iterator[New]:
    """Use a sibling: n_q for n_k, BLOCK_Q for BLOCK_K, k_row for q_row; one use at a time."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        for other in names_beside(node):
            if _alike(node.id, other):
                yield ast.Name(other, ast.Load())


def _alike(a: str, b: str) -> bool:
    """Return whether two names differ in one of their parts, or in one letter."""
    one, other = a.split("_"), b.split("_")
    if a == b or len(one) != len(other):
        return False
    if len(one) > 1:
        return sum(x != y for x, y in zip(one, other, strict=True)) == 1
    return len(a) == len(b) == 1 or (len(a) == len(b) and sum(map(str.__ne__, a, b)) == 1)


@_operator("two arguments exchanged")
def swap_arguments(node: ast.AST) -> Iterator[New]:
    commutes = isinstance(node, ast.Call) and ast.unparse(node.func) in {"min", "max"}
    if isinstance(node, ast.Call) and not isinstance(node.func, ast.Attribute) and not commutes:
        for i in range(len(node.args) - 1):
            args = list(node.args)
            args[i : i + 2] = args[i : i + 2][::-1]
            yield ast.Call(node.func, args, node.keywords)


@_operator("two lines exchanged")
def swap_lines(node: ast.AST) -> Iterator[New]:
    for body, put in blocks(node):
        for i in range(len(body) - 1):
            one, other = body[i : i + 2]
            if isinstance(other, ast.Return) or independent(one, other):
                continue
            if isinstance(one, ast.FunctionDef) and isinstance(other, ast.FunctionDef):
                continue  # in a class, or side by side: whichever stands first
            yield put([*body[:i], other, one, *body[i + 2 :]])


@_operator("loaded twice", *ONCE)
def load_twice(node: ast.AST) -> Iterator[New]:
    for body, put in blocks(node):
        for i, one in enumerate(body):
            if isinstance(one, ast.Assign) and is_load(one) and not used(one) & written(one):
                yield put([*body[:i], one, *body[i:]])


@_operator("launched twice", *ONCE, "everything is added up twice")  # where launches add
def launch_twice(node: ast.AST) -> Iterator[New]:
    if is_launch(node):
        yield [node, copy.deepcopy(node)]  # type: ignore[list-item]


OPERATORS: tuple[Operator, ...] = (
    drop_a_line, constant_condition, swap_operands, other_operation, one_operand,
    other_comparison, off_by_one, other_constant, other_axis, other_name, swap_arguments,
    swap_lines, load_twice, launch_twice,
    _without("mask", "the mask of an access is left out", OUT),
    _without("other", "what masked lanes hold is left out"),
    _without("axis", "the axis is left out"),
    _without("keepdims", "keepdims is left out", "keepdims is missing"),
    _mechanical("a cast is left out", of=(
        ("X.to(A)", "X"), ("X.astype(A)", "X"), ("X.float()", "X"), ("float(X)", "X"),
    )),
    _mechanical("a choice is left out", of=(
        ("X.where(C, A, B)", "A"), ("X.where(C, A, B)", "B"),
        ("X.where(C, A, B)", "X.where(C, B, A)"),
    )),
    _mechanical("a guard is left out", of=(
        ("A if C else B", "A"), ("A if C else B", "B"),
        ("X.minimum(A, B)", "A"), ("X.minimum(A, B)", "B"), ("min(A, B)", "A"), ("min(A, B)", "B"),
        ("A or B", "A"), ("A or B", "B"), ("A and B", "A"), ("A and B", "B"),
    )),
    _mechanical("a transposition is left out", of=(
        ("X.trans(A)", "A"), ("X.T", "X"), ("X.transpose(*A)", "X"), ("X.mT", "X"),
    )),
    _mechanical("a number is negated", of=(("X.exp(A)", "X.exp(-(A))"), ("X.log(A)", "-X.log(A)"))),
)  # fmt: skip
