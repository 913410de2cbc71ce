"""Edits that leave a right program right: it must pass, in a check and in the sandbox alike."""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Iterator
from functools import partial

from course_lib.specs import EXERCISES
from mutants.blocks import blocks, independent, is_kernel, is_launch, parameters, used, written
from mutants.edits import New, Operator, pairs

_KIND = "right"
_right = partial(pairs, kind=_KIND)
_ANSWERS = {exercise.function for exercise in EXERCISES}
# these get their own answers back, and NumPy has no exp of a Fraction
_FED_BACK = {exercise.function for exercise in EXERCISES if exercise.run is not None}


def _operator(name: str) -> object:
    def of(change) -> Operator:  # type: ignore[no-untyped-def]
        return Operator(name, _KIND, change)

    return of


def _functions(tree: ast.AST) -> list[ast.FunctionDef]:
    body = tree.body if isinstance(tree, ast.Module) else []
    return [node for node in body if isinstance(node, ast.FunctionDef)]


class _Rename(ast.NodeTransformer):
    """Give variables, parameters and the keywords of calls other names."""

    def __init__(self, names: dict[str, str], called: dict[str, dict[str, str]]) -> None:
        self.names, self.called = names, called

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.names.get(node.id, node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        told = node.annotation and self.visit(node.annotation)
        return ast.arg(self.names.get(node.arg, node.arg), told)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = node.func.value if isinstance(node.func, ast.Subscript) else node.func
        keywords = self.called.get(getattr(function, "id", ""), {})
        self.generic_visit(node)
        for keyword in node.keywords:
            keyword.arg = keywords.get(keyword.arg or "", keyword.arg)
        return node


def _renamed(tree: ast.Module, names: dict[str, dict[str, str]]) -> ast.Module:
    """Return a program in which each function has other names for what is its own."""
    tree = copy.deepcopy(tree)
    for i, node in enumerate(tree.body):
        own = names.get(getattr(node, "name", ""), {})
        tree.body[i] = _Rename(own, names).visit(node)
    return tree


def _is_plain(node: ast.FunctionDef) -> bool:
    """Return whether no decorator speaks of the function's parameters."""
    return not any(isinstance(d, ast.Call) for d in node.decorator_list)


def _own(node: ast.FunctionDef) -> list[str]:
    """Return the names that a function may call otherwise."""
    names = [] if node.name in _ANSWERS else parameters(node)
    names += sorted(written(node) - set(parameters(node)))
    # comprehensions and nested functions have scopes of their own; leave their names alone
    scoped = [
        n for n in ast.walk(node) if isinstance(n, ast.Lambda | ast.GeneratorExp | ast.ListComp)
    ]
    inner = {part.arg for n in scoped for part in ast.walk(n) if isinstance(part, ast.arg)}
    return [name for name in names if name not in inner]


@_operator("other names for everything")
def other_names(tree: ast.AST) -> Iterator[New]:
    names = {
        f.name: {name: f"thing_{i}" for i, name in enumerate(_own(f))}
        for f in _functions(tree)
        if _is_plain(f)
    }
    if names and not _are_texts(names, tree):
        yield _renamed(tree, names)  # type: ignore[arg-type]


def _are_texts(names: dict[str, dict[str, str]], tree: ast.AST) -> bool:
    """Return whether a name also stands in the program as a text: ``meta["BLOCK"]``."""
    texts = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
    return any(name in texts for own in names.values() for name in own)


@_operator("tensors called by each other's names")
def exchanged_names(tree: ast.AST) -> Iterator[New]:
    """In kernels, call q k, k v, and so on: who matches by name is misled."""
    names = {}
    for function in filter(is_kernel, _functions(tree)):
        assert isinstance(function, ast.FunctionDef)
        lower = [p for p in parameters(function) if p.islower()]
        if len(lower) > 1 and _is_plain(function):
            names[function.name] = dict(zip(lower, [*lower[1:], lower[0]], strict=True))
    if names:
        yield _renamed(tree, names)  # type: ignore[arg-type]


@_operator("other names for helpers")
def other_helpers(tree: ast.AST) -> Iterator[New]:
    helpers = [f.name for f in _functions(tree) if f.name not in _ANSWERS]
    if helpers:
        renamed = copy.deepcopy(tree)
        names = {name: f"helper_{i}" for i, name in enumerate(helpers)}
        for function in _functions(renamed):
            function.name = names.get(function.name, function.name)
        yield _Rename(names, {}).visit(renamed)


@_operator("independent lines exchanged")
def exchange_independent(node: ast.AST) -> Iterator[New]:
    for body, put in blocks(node):
        for i in range(len(body) - 1):
            one, other = body[i : i + 2]
            if independent(one, other):
                yield put([*body[:i], other, one, *body[i + 2 :]])


@_operator("while for for")
def while_loop(node: ast.AST) -> Iterator[New]:
    if not isinstance(node, ast.For) or not isinstance(node.target, ast.Name):
        return
    leaves = any(isinstance(n, ast.Continue) for n in ast.walk(node))
    counts = isinstance(node.iter, ast.Call) and ast.unparse(node.iter.func) == "range"
    if leaves or not counts:
        return
    args = node.iter.args  # type: ignore[attr-defined]
    start, stop, *step = args if len(args) > 1 else [ast.Constant(0), *args]
    by = step[0] if step else ast.Constant(1)
    if isinstance(by, ast.UnaryOp) or isinstance(stop, ast.Starred):
        return
    name = node.target.id
    first = ast.Assign([ast.Name("at_", ast.Store())], start)
    # the loop's variable is read after a loop, and changed in it, as a `for` has it
    body = [ast.Assign([ast.Name(name, ast.Store())], ast.Name("at_", ast.Load())), *node.body]
    move = ast.AugAssign(ast.Name("at_", ast.Store()), ast.Add(), by)
    test = ast.Compare(ast.Name("at_", ast.Load()), [ast.Lt()], [stop])
    if "at_" not in written(node) and not any(n in written(node) for n in used(stop) | used(by)):
        yield [first, ast.While(test, [*body, move], [])]


@_operator("a helper for one expression")
def extract_helper(tree: ast.AST) -> Iterator[New]:
    """Move the right side of an assignment into a function of its own, jitted beside a kernel."""
    for i, function in enumerate(tree.body if isinstance(tree, ast.Module) else []):
        if not isinstance(function, ast.FunctionDef):
            continue
        local = set(parameters(function)) | written(function)
        for j, one in enumerate(function.body):
            value = getattr(one, "value", None)
            if not isinstance(one, ast.Assign) or not isinstance(value, ast.BinOp):
                continue
            if any(isinstance(n, ast.comprehension) for n in ast.walk(value)):
                continue  # its variables are its own
            names = sorted(used(value) & local)
            changed = copy.deepcopy(tree)
            call = ast.Call(
                ast.Name("helper_", ast.Load()), [ast.Name(n, ast.Load()) for n in names], []
            )
            changed.body[i].body[j] = ast.Assign(one.targets, call)  # type: ignore[attr-defined]
            helper = ast.parse(f"def helper_({', '.join(names)}):\n    return 0").body[0]
            assert isinstance(helper, ast.FunctionDef)
            helper.body[0].value = copy.deepcopy(value)  # type: ignore[attr-defined]
            if is_kernel(function):
                helper.decorator_list = (ast.parse("triton.jit", mode="eval").body,)  # type: ignore
                helper.decorator_list = list(helper.decorator_list)
                constants = {a.arg for a in function.args.args if a.annotation}
                for argument in helper.args.args:
                    if argument.arg in constants:
                        argument.annotation = ast.parse("tl.constexpr", mode="eval").body
            changed.body.insert(i, helper)  # type: ignore[attr-defined]
            yield changed


# Imports ----------------------------------------------------------------------------------------


def _has_tl(tree: ast.AST) -> bool:
    return isinstance(tree, ast.Module) and "import triton.language as tl" in ast.unparse(tree)


def _with_import(tree: ast.AST, line: str) -> ast.Module:
    """Return the program with another line in place of ``import triton.language as tl``."""
    changed = copy.deepcopy(tree)
    changed.body = [  # type: ignore[attr-defined]
        new
        for node in changed.body  # type: ignore[attr-defined]
        for new in (
            ast.parse(line).body if ast.unparse(node) == "import triton.language as tl" else [node]
        )
    ]
    return changed  # type: ignore[return-value]


@_operator("tl is called L")
def language_as_l(tree: ast.AST) -> Iterator[New]:
    if _has_tl(tree):
        for line in ("from triton import language as L", "import triton.language as L"):
            yield _Rename({"tl": "L"}, {}).visit(_with_import(tree, line))


@_operator("annotations are not evaluated")
def future_annotations(tree: ast.AST) -> Iterator[New]:
    if _has_tl(tree):
        line = "import triton.language as L"
        changed = _Rename({"tl": "L"}, {}).visit(_with_import(tree, line))
        changed.body = [*ast.parse("from __future__ import annotations").body, *changed.body]
        yield changed


class _Imported(ast.NodeTransformer):
    """Say ``dot`` for ``tl.dot``; where that means something else here, ``tl_dot``."""

    def __init__(self, taken: set[str]) -> None:
        self.taken, self.found = taken, dict[str, str]()

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == "tl":
            free = node.attr not in self.taken and not hasattr(builtins, node.attr)
            self.found[node.attr] = node.attr if free else f"tl_{node.attr}"
            return ast.Name(self.found[node.attr], node.ctx)
        return node


@_operator("operations imported by name")
def imported_by_name(tree: ast.AST) -> Iterator[New]:
    if not _has_tl(tree):
        return
    taken = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    taken |= {p for f in _functions(tree) for p in [f.name, *parameters(f)]}
    change = _Imported(taken)
    changed = change.visit(copy.deepcopy(tree))
    names = ", ".join(f"{a} as {b}" if a != b else a for a, b in sorted(change.found.items()))
    yield _with_import(changed, f"from triton.language import {names}")


@_operator("jit imported by name")
def jit_by_name(tree: ast.AST) -> Iterator[New]:
    if _has_tl(tree):
        changed = copy.deepcopy(tree)
        for function in _functions(changed):
            function.decorator_list = [
                ast.Name("jit", ast.Load()) if ast.unparse(d) == "triton.jit" else d
                for d in function.decorator_list
            ]
        line = "from triton import jit\nimport triton.language as tl"
        yield _with_import(changed, line)


@_operator("numpy imported otherwise")
def numpy_otherwise(tree: ast.AST) -> Iterator[New]:
    if isinstance(tree, ast.Module) and "import numpy as np" in ast.unparse(tree):
        changed = _Rename({"np": "numpy"}, {}).visit(copy.deepcopy(tree))
        for node in changed.body:
            if isinstance(node, ast.Import) and node.names[0].name == "numpy":
                node.names[0].asname = None
        yield changed


# Answers ----------------------------------------------------------------------------------------

_CONVERSIONS = {
    "lists for tuples": "list(x) if isinstance(x, tuple) else x",
    "tuples for lists": "tuple(x) if type(x) is list else x",
    "numbers of NumPy": "np.asarray(x)[()] if type(x) in (int, float) else x",
    "Python's numbers": "x.item() if isinstance(x, np.generic) else x",
    "arrays of no dimension": "np.array(x) if type(x) in (int, float) else x",
    "fractions": "Fraction(x) if type(x) in (int, float) and abs(x) < 1e300 else x",
    "an array for two numbers":
        "np.array(x) if type(x) in (list, tuple) and {*map(type, x)} <= {int, float} else x",
    "arrays as lists": "x.tolist() if isinstance(x, np.ndarray) else x",
}  # fmt: skip


_LISTS = _CONVERSIONS["arrays as lists"]  # 0.1 asks for an array


def _converted(name: str, how: str) -> Operator:
    """Return the operator that lets an answer be told in another type, all through it."""

    def change(tree: ast.AST) -> Iterator[New]:
        answers = [f for f in _functions(tree) if f.name in _ANSWERS]
        if not answers or _launches(tree):
            return
        answer = answers[-1].name
        if (name == "fractions" and answer in _FED_BACK) or (how == _LISTS and answer == "echo"):
            return
        changed = copy.deepcopy(tree)
        (inner,) = [f for f in _functions(changed) if f.name == answers[-1].name]
        outer = copy.deepcopy(inner)
        inner.name = "answer_"
        positional = [a.arg for a in [*inner.args.posonlyargs, *inner.args.args]]
        named = [f"{a.arg}={a.arg}" for a in inner.args.kwonlyargs]
        outer.body = ast.parse(f"return told_(answer_({', '.join([*positional, *named])}))").body
        told = (
            "from fractions import Fraction\nimport numpy as np\ndef told_(x):\n"
            "    if type(x) in (list, tuple):\n        x = type(x)(map(told_, x))\n"
            "    if type(x) is dict:\n        x = {key: told_(y) for key, y in x.items()}\n"
            f"    return {how}\n"
        )
        changed.body += [*ast.parse(told).body, outer]  # type: ignore[attr-defined]
        yield changed

    return Operator(f"answers: {name}", _KIND, change)


def _launches(tree: ast.AST) -> bool:
    return any(is_launch(node) for node in ast.walk(tree))


# Launches ---------------------------------------------------------------------------------------


@_operator("a run-time flag")
def runtime_flag(node: ast.AST) -> Iterator[New]:
    """A kernel's CAUSAL is no constexpr: the launch hands it a Python bool."""
    if is_kernel(node):
        changed = copy.deepcopy(node)
        for argument in changed.args.args:  # type: ignore[attr-defined]
            if "causal" in argument.arg.lower() and argument.annotation is not None:
                argument.annotation = None
                yield changed
                return


@_operator("a grid that is a function")
def grid_function(node: ast.AST) -> Iterator[New]:
    if is_launch(node):
        changed = copy.deepcopy(node)
        function = changed.value.func  # type: ignore[attr-defined]
        if isinstance(function.slice, ast.Tuple):
            grid = ast.parse("lambda meta: 0", mode="eval").body
            assert isinstance(grid, ast.Lambda)
            grid.body = function.slice
            function.slice = grid
            yield changed


@_operator("a flag that is a number")
def number_flag(node: ast.AST) -> Iterator[New]:
    flag = isinstance(node, ast.keyword) and "causal" in (node.arg or "").lower()
    if flag and isinstance(node.value, ast.Name):
        yield ast.keyword(node.arg, ast.parse(f"int({node.value.id})", mode="eval").body)


_IN_FLOAT32 = {"vector_add", "row_softmax", "mended_total"}


@_operator("a pointer loaded from a tensor")
def loaded_pointer(tree: ast.AST) -> Iterator[New]:
    """Hand a kernel a table with the address of its first tensor, as a grouped product does."""
    kernels = [f for f in _functions(tree) if is_kernel(f) and _is_plain(f)]
    launched = [n for n in ast.walk(tree) if is_launch(n)]
    answers = {f.name for f in _functions(tree)} & _IN_FLOAT32
    has_torch = "import torch" in ast.unparse(tree)
    if len(launched) != 1 or not kernels or not answers or not has_torch:
        return
    name = launched[0].value.func.value  # type: ignore[attr-defined]
    changed = copy.deepcopy(tree)
    for f in _functions(changed):
        if f.name == getattr(name, "id", ""):
            first = f.args.args[0].arg
            line = f"{first} = tl.load({first}).to(tl.pointer_type(tl.float32))"
            f.body = [*ast.parse(line).body, *f.body]
    launch = next(n for n in ast.walk(changed) if is_launch(n))
    args = launch.value.args  # type: ignore[attr-defined]
    if args and isinstance(args[0], ast.Name):
        table = f"torch.tensor([{args[0].id}.data_ptr()], dtype=torch.int64)"
        args[0] = ast.parse(table, mode="eval").body
        yield changed


OPERATORS: tuple[Operator, ...] = (
    other_names, exchanged_names, other_helpers, exchange_independent, while_loop, extract_helper,
    language_as_l, future_annotations, imported_by_name, jit_by_name, numpy_otherwise,
    runtime_flag, grid_function, number_flag, loaded_pointer,
    *(_converted(name, how) for name, how in _CONVERSIONS.items()),
    _right("a mask written otherwise", of=(
        ("A & B", "B & A"), ("A < B", "B > A"), ("A <= B", "B >= A"), ("A >= B", "B <= A"),
    )),
    _right("a choice written otherwise", of=(
        ('tl.where(C, S, float("-inf"))', 'S + tl.where(C, 0.0, float("-inf"))'),
        ("tl.where(C, A, B)", "tl.where(~(C), B, A)"),
        ("np.where(C, A, B)", "np.where(~(C), B, A)"),
        ("A if C else B", "B if not C else A"),
    )),
    _right("a sum written otherwise", of=(
        ("A += B", "A = A + B"), ("A *= B", "A = A * B"), ("A = A + B", "A += B"),
    )),
    _right("arguments by position or by name", of=(
        ("tl.load(P, mask=M, other=O)", "tl.load(P, M, O)"),
        ("tl.load(P, mask=M)", "tl.load(P, M)"),
        ("tl.store(P, X, mask=M)", "tl.store(P, X, M)"), ("tl.max(S, A)", "tl.max(S, axis=A)"),
        ("tl.sum(S, A)", "tl.sum(S, axis=A)"), ("tl.arange(A, B)", "tl.arange(start=A, end=B)"),
    )),
    _right("methods for functions", of=(
        ("tl.max(S, A)", "S.max(A)"), ("tl.sum(S, A)", "S.sum(A)"), ("tl.trans(A)", "A.T"),
        ("tl.trans(A)", "A.trans()"),
    )),
    _right("the same function elsewhere", of=(
        ("tl.exp(A)", "tl.math.exp(A)"), ("tl.log(A)", "tl.math.log(A)"),
        ("tl.exp(A)", "tl.exp2(A * 1.4426950408889634)"),
        ("tl.maximum(A, B)", "tl.where(A > B, A, B)"), ("tl.minimum(A, B)", "min(A, B)"),
        ("triton.cdiv(A, B)", "(A + B - 1) // B"), ("triton.cdiv(A, B)", "-(-A // B)"),
        ("np.maximum(A, B)", "np.where(A > B, A, B)"),
    )),
    _right("infinity written otherwise", of=(
        ('float("-inf")', '-float("inf")'), ("-np.inf", 'float("-inf")'), ("-np.inf", "-(np.inf)"),
    )),
    _right("a grid with one more axis", of=(("F[A, B](*C, **K)", "F[A, B, 1](*C, **K)"),)),
)  # fmt: skip
