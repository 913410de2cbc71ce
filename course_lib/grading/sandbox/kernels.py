"""A kernel's source on its way to the device: gathered beside the student, checked before it runs.

The device runs nothing but Triton. So the source that a launch brings may hold jitted functions
and constants only, and these may use arithmetic, names, ``tl`` and the methods of tensors: no
import but triton's, no underscore, no lambda, no string formatting, no assignment to anything but
names. What is executed is the checked tree, printed again, never the text that came.
"""

from __future__ import annotations

import ast
import linecache
import sys
import types
from typing import Any

MAX_SOURCE = 64 << 10


class NotTriton(ValueError):
    """The source is no plain Triton kernel; the message names what it uses, in one sentence."""


_STATEMENTS = (
    ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.While, ast.If, ast.Expr,
    ast.Pass, ast.Assert, ast.Break, ast.Continue,
)  # fmt: skip
_EXPRESSIONS = (
    ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.Call, ast.Attribute,
    ast.Subscript, ast.Slice, ast.Name, ast.Constant, ast.Tuple, ast.List, ast.keyword,
    ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip
_BUILTINS = {"range", "min", "max", "abs", "float", "int", "bool", "len", "True", "False", "None"}
# methods and attributes of a tensor inside a kernel
_MEMBERS = {
    "to", "T", "trans", "permute", "reshape", "view", "broadcast_to", "expand_dims", "split",
    "join", "sum", "max", "min", "argmax", "argmin", "abs", "cast", "dtype", "shape", "type",
    "element_ty", "value", "load", "store", "gather", "scatter", "cumsum", "cumprod", "sort",
    "flip", "ravel", "exp", "exp2", "log", "log2", "cos", "sin", "sqrt", "rsqrt", "sigmoid",
    "softmax", "logical_and", "logical_or", "cdiv", "xor_sum", "atomic_add", "atomic_max",
    "atomic_min", "atomic_cas", "atomic_xchg", "atomic_and", "atomic_or", "atomic_xor",
    "is_floating", "is_ptr", "is_fp16", "is_fp32", "is_bf16", "primitive_bitwidth", "numel",
    "block_shape", "strides", "fma", "erf", "floor", "ceil",
}  # fmt: skip
_MODULES = {"triton.language.math", "triton.language.extra", "triton.language.extra.cuda"}
_MODULES |= {"triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice"}
_FORBIDDEN_TL = {"inline_asm_elementwise", "core", "standard", "semantic", "builtin"}


_gathered: dict[int, tuple[Any, dict[str, Any], tuple[str, str]]] = {}


def gather(kernel: Any) -> tuple[str, str]:
    """Return (source, name) of a jitted function with all it names. Raises NotExtractable.

    The answer is remembered until one of the names that the function can see means another thing:
    a launcher is called ten times in a check, and gathering takes longer than launching.
    """
    from course_lib.accounting.extract import extract

    meanings = _meanings(kernel)
    before = _gathered.get(id(kernel))
    if before and before[0] is kernel and _same_objects(before[1], meanings):
        return before[2]
    piece = extract(kernel)
    answer = piece.source, piece.name
    _gathered[id(kernel)] = (kernel, meanings, answer)
    return answer


def _meanings(kernel: Any) -> dict[str, Any]:
    """Return what the globals and the captured names of a jitted function stand for now."""
    function = kernel
    while hasattr(function, "fn"):
        function = function.fn
    cells = enumerate(getattr(function, "__closure__", None) or ())
    captured = {f"captured {i}": cell.cell_contents for i, cell in cells}
    return {**getattr(function, "__globals__", {}), **captured}


def _same_objects(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(b[name] is thing for name, thing in a.items())


def load(source: str, name: str) -> Any:
    """Check ``source`` and return a module with its jitted functions. Raises NotTriton."""
    text = clean(source)
    module = types.ModuleType("student_kernels")
    file = f"/kernels/{name}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module.__file__ = file
    sys.modules[module.__name__] = module
    exec(compile(text, file, "exec"), vars(module))  # the checked tree: see `clean`
    if not hasattr(getattr(module, name, None), "fn"):
        raise NotTriton(f"`{name}` is no @triton.jit function.")
    return module


def clean(source: str) -> str:
    """Return the same functions as text that holds nothing but Triton. Raises NotTriton."""
    if len(source) > MAX_SOURCE:
        raise NotTriton(f"the kernel's source is longer than {MAX_SOURCE >> 10} KiB.")
    try:
        tree = ast.parse(source)
        body = [node for node in map(_top_level, tree.body) if node is not None]
        head = ast.parse("import triton\nimport triton.language as tl").body
        return ast.unparse(ast.fix_missing_locations(ast.Module([*head, *body], []))) + "\n"
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        if isinstance(error, NotTriton):
            raise
        raise NotTriton(f"the kernel's source cannot be read: {error}.") from None


def _top_level(node: ast.stmt) -> ast.stmt | None:
    if isinstance(node, ast.Import):
        if all(
            alias.name in ("triton", "triton.language", "torch", "math") for alias in node.names
        ):
            kept = [alias for alias in node.names if alias.name.startswith("triton")]
            return ast.Import(kept) if kept else None
    elif isinstance(node, ast.ImportFrom):
        return _import_from(node)
    elif isinstance(node, ast.Assign) and _plain_names(node.targets):
        _check_constant(node.value)
        return node
    elif isinstance(node, ast.FunctionDef):
        return _function(node)
    raise NotTriton(f"`{_short(node)}` is not part of a kernel.")


def _import_from(node: ast.ImportFrom) -> ast.stmt | None:
    if node.module == "__future__":
        return None
    names = [alias.name for alias in node.names]
    if node.module in ("triton", "triton.language") and not node.level:
        for name in names:
            _check_tl(name)
        return node
    libdevice = node.module in ("triton.language.extra", "triton.language.extra.cuda")
    if libdevice and names == ["libdevice"] and not node.level:
        return node
    if node.module == "triton.language.math" and not any(n.startswith("_") for n in names):
        return node
    raise NotTriton(f"a kernel cannot import from {node.module}.")


def _check_tl(name: str) -> None:
    if name.startswith("_") or name in _FORBIDDEN_TL:
        raise NotTriton(f"`{name}` of Triton is not for kernels.")


def _check_constant(node: ast.expr) -> None:
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute):
            _check_attribute(part, set())
        elif isinstance(part, ast.Call):
            if ast.unparse(part.func) not in (
                "float",
                "int",
                "tl.constexpr",
                "triton.language.constexpr",
            ):
                raise NotTriton(f"`{_short(part)}` is no constant.")
        elif not isinstance(part, _EXPRESSIONS):
            raise NotTriton(f"`{_short(node)}` is no constant.")


def _function(node: ast.FunctionDef) -> ast.FunctionDef:
    arguments = node.args
    if arguments.vararg or arguments.kwarg or node.name.startswith("_" * 2):
        raise NotTriton(f"`{node.name}`: a kernel has no *args, **kwargs.")
    for default in [*arguments.defaults, *filter(None, arguments.kw_defaults)]:
        _check_constant(default)
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        is_constexpr = argument.annotation and "constexpr" in ast.unparse(argument.annotation)
        argument.annotation = _parsed("tl.constexpr") if is_constexpr else None
        _check_name(argument.arg)
    for statement in node.body:
        _check(statement)
    node.decorator_list, node.returns = [_parsed("triton.jit")], None
    return node


def _check(node: ast.AST) -> None:
    """Refuse everything that is not arithmetic on tensors."""
    if isinstance(node, ast.Assign) and not _plain_names(node.targets):
        raise NotTriton(f"`{_short(node)}`: a kernel assigns to names only.")
    if isinstance(node, ast.AugAssign | ast.AnnAssign) and not isinstance(node.target, ast.Name):
        raise NotTriton(f"`{_short(node)}`: a kernel assigns to names only.")
    if isinstance(node, ast.AnnAssign):
        node.annotation = _parsed(
            "tl.constexpr" if "constexpr" in _short(node.annotation) else "None"
        )
    if isinstance(node, ast.For) and not _plain_names([node.target]):
        raise NotTriton(f"`{_short(node.target)}` cannot be a loop's variable.")
    if isinstance(node, ast.Attribute):
        _check_attribute(node, _MEMBERS)
    elif isinstance(node, ast.Name):
        _check_name(node.id)
    elif isinstance(node, ast.Constant):
        if not isinstance(node.value, int | float | str | None):
            raise NotTriton(f"the constant {node.value!r} is not for kernels.")
    elif not isinstance(node, _STATEMENTS + _EXPRESSIONS):
        raise NotTriton(f"`{_short(node)}` ({type(node).__name__}) is not Triton.")
    for child in ast.iter_child_nodes(node):
        _check(child)


def _check_name(name: str) -> None:
    import builtins

    if name.startswith("__") or (hasattr(builtins, name) and name not in _BUILTINS):
        raise NotTriton(f"the name `{name}` is not for kernels.")


def _check_attribute(node: ast.Attribute, members: set[str]) -> None:
    """Allow ``tl.x``, ``tl.math.x``, ``triton.x`` and the methods of tensors."""
    chain, root = [node.attr], node.value
    while isinstance(root, ast.Attribute):
        chain.insert(0, root.attr)
        root = root.value
    for name in chain:
        _check_tl(name)
    if isinstance(root, ast.Name) and root.id in ("tl", "triton", "torch", "libdevice", "math"):
        return _check_path(root.id, chain)
    if any(name not in members for name in chain):
        raise NotTriton(f"`{_short(node)}` is not part of Triton.")
    return None


def _check_path(root: str, chain: list[str]) -> None:
    """Allow a dotted path that leads to an operation or a type of Triton's language."""
    import triton.language as tl

    dotted = f"{root}.{'.'.join(chain)}"
    if root == "triton" and chain[0] in ("cdiv", "next_power_of_2") and len(chain) == 1:
        return
    if root == "triton" and chain[0] == "language":
        root, chain = "tl", chain[1:]
    if root == "libdevice" and len(chain) == 1:
        return
    thing: Any = tl if root == "tl" else None
    for name in chain:
        if isinstance(thing, types.ModuleType):
            thing = getattr(thing, name, None)
            inside = getattr(thing, "__name__", "") in _MODULES
            if isinstance(thing, types.ModuleType) and not inside:
                break
        elif name not in _MEMBERS:
            break
    else:
        if thing is not None and not isinstance(thing, types.ModuleType) and _is_language(thing):
            return
    raise NotTriton(f"`{dotted}` is not for kernels.")


def _is_language(thing: Any) -> bool:
    """Return whether this is one of Triton's own operations, functions, types or constants."""
    home = getattr(getattr(thing, "fn", thing), "__module__", None) or type(thing).__module__
    return home.startswith("triton.language")


def _plain_names(targets: list[ast.expr]) -> bool:
    names = []
    for target in targets:
        names += target.elts if isinstance(target, ast.Tuple) else [target]
    return all(isinstance(name, ast.Name) and name.id not in ("tl", "triton") for name in names)


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _short(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0][:60]
