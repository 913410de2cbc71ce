"""A kernel's source: gathered beside the student, checked before the interpreter runs it.

The interpreter runs nothing but Triton. So the source that a launch brings may hold jitted
functions and constants only, and these may use arithmetic, ``tl`` (under any name), the methods of
tensors and names that the source itself binds: the interpreter lends a kernel its own (`np`,
`inspect`), which lead to everything. No import but triton's, no underscore, no lambda, no string
formatting, no assignment to anything but names. What is executed is the checked tree, printed
again, never the text that came.

Longer than 400 lines because all of what may pass is decided in one place.
"""

from __future__ import annotations

import ast
import linecache
import sys
import types
from importlib import import_module
from typing import Any

from course_lib.accounting.launch_arguments import plain_value

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
_LIBDEVICE = {"triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice"}
_MODULES = {"triton.language.math", "triton.language.extra", "triton.language.extra.cuda"}
_MODULES |= _LIBDEVICE
_IMPORTABLE = {"triton", "triton.language", *_MODULES}
_OF_TRITON = {"cdiv", "next_power_of_2"}
# classes that a kernel calls or names; Triton's others are its own
_TYPES = {"constexpr", "range", "static_range", "pointer_type", "block_type"}
_TYPES |= {"tensor", "tuple", "dtype", "const"}
_CHOICES = {"PropagateNan.ALL", "PropagateNan.NONE"}  # of an enumeration, in triton.language
# what decorates a kernel: replaced by a bare ``triton.jit``
_DECORATORS = {"jit", "autotune", "heuristics", "Config"}
_IGNORED = {"torch", "math"}  # imported beside a kernel, of no use inside
_FORBIDDEN_TL = {"inline_asm_elementwise", "core", "standard", "semantic", "builtin"}
_WITH_A_MESSAGE = {"static_assert", "device_assert", "static_print", "device_print"}
_HEAD = {"triton": "triton", "tl": "triton.language"}
_HELD = "__held"  # in a module of kernels, what a constexpr holds; no kernel can write the name
_EQUAL = {ast.Is: ast.Eq, ast.IsNot: ast.NotEq}


_gathered: dict[int, tuple[Any, dict[str, Any], tuple[str, str]]] = {}


def gather(kernel: Any) -> tuple[str, str]:
    """Return (source, name) of a jitted function with all it names. Raises NotExtractable.

    The answer is remembered until one of the names that the function can see means another thing:
    a launcher is called ten times in a check, and gathering takes longer than launching.
    """
    from course_lib.child.extract import extract

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


def load(source: str, name: str, *, compiled: bool = False) -> Any:
    """Check ``source`` and return a module with its jitted functions. Raises NotTriton."""
    text = clean(source, compiled=compiled)
    module = types.ModuleType("student_kernels")
    file = f"/kernels/{name}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module.__file__ = file
    vars(module)[_HELD] = plain_value
    sys.modules[module.__name__] = module
    exec(compile(text, file, "exec"), vars(module))  # the checked tree: see `clean`
    if not hasattr(getattr(module, name, None), "fn"):
        raise NotTriton(f"`{name}` is no @triton.jit function.")
    return module


def clean(source: str, *, compiled: bool = False) -> str:
    """Return the same functions as text that holds nothing but Triton. Raises NotTriton.

    Where they are to be ``compiled``, f-strings stay: the compiler must see what it would refuse.
    """
    if len(source) > MAX_SOURCE:
        raise NotTriton(f"the kernel's source is longer than {MAX_SOURCE >> 10} KiB.")
    try:
        body = _File(ast.parse(source).body, compiled).clean()
        head = ast.parse("import triton\nimport triton.language as tl").body
        tree = ast.fix_missing_locations(ast.Module([*head, *body], []))
        text = ast.unparse(tree) + "\n"
        if ast.dump(ast.parse(text)) != ast.dump(tree):  # a name in other letters is printed `del`
            raise NotTriton("the kernel's source means something else when it is printed.")
        return text
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        if isinstance(error, NotTriton):
            raise
        raise NotTriton(f"the kernel's source cannot be read: {error}.") from None


class _File:
    """One source: what its names stand for, and its statements one by one."""

    def __init__(self, statements: list[ast.stmt], compiled: bool) -> None:
        self._statements, self._compiled = statements, compiled
        self._paths = dict(_HEAD)  # name -> the module of Triton that it stands for
        self._bound: set[str] = set()  # what has been bound so far: a constant may name no more
        functions = [node for node in statements if isinstance(node, ast.FunctionDef)]
        self._later = {node.name for node in functions}
        for node in statements:
            if isinstance(node, ast.Assign):
                self._later |= _names_of(node.targets)

    def clean(self) -> list[ast.stmt]:
        """Return the statements to run. Raises NotTriton."""
        imports = [n for n in self._statements if isinstance(n, ast.Import | ast.ImportFrom)]
        rest = [n for n in self._statements if not isinstance(n, ast.Import | ast.ImportFrom)]
        kept = [node for node in map(self._imported, imports) if node is not None]
        rest = [node for node in rest if not _makes_configs(node)]
        return [*kept, *map(self._defined, rest)]

    def _imported(self, node: ast.Import | ast.ImportFrom) -> ast.stmt | None:
        if isinstance(node, ast.Import):
            names = [alias for alias in node.names if alias.name not in _IGNORED]
            for alias in names:
                if alias.name not in _IMPORTABLE:
                    raise NotTriton(f"`{_short(node)}` is not part of a kernel.")
                path = alias.name if alias.asname else "triton"
                self._bind_module(alias.asname or "triton", path)
            return ast.Import(names) if names else None
        if node.level:
            raise NotTriton("a kernel cannot import from a folder.")
        if node.module == "__future__":
            return None
        kept = [alias for alias in node.names if not _is_decorator(node.module, alias.name)]
        module = node.module if node.module in _IMPORTABLE else "triton.language"
        for alias in kept:
            self._import_one(node.module or "", module, alias)
        return ast.ImportFrom(module, kept, 0) if kept else None

    def _import_one(self, written: str, module: str, alias: ast.alias) -> None:
        """Check one name of ``from module import name``; ``written`` is where it was looked for."""
        name = alias.asname or alias.name
        if not written == "triton" and not written.startswith("triton.language"):
            raise NotTriton(f"a kernel cannot import from {written}.")
        _check_tl(alias.name)
        if f"{module}.{alias.name}" in _IMPORTABLE:
            return self._bind_module(name, f"{module}.{alias.name}")
        _check_path(module, [alias.name], f"{written}.{alias.name}")
        return self._bind({name})

    def _bind_module(self, name: str, path: str) -> None:
        if self._paths.get(name, path) != path or (name in _HEAD and _HEAD[name] != path):
            raise NotTriton(f"`{name}` means two things in the kernel's file.")
        if name.startswith("__") or name in self._later:
            raise NotTriton(f"the name `{name}` is not for kernels.")
        self._paths[name] = path

    def _bind(self, names: set[str]) -> None:
        for name in names:
            _check_new(name, self._paths)
        self._bound |= names

    def _defined(self, node: ast.stmt) -> ast.stmt:
        if isinstance(node, ast.Assign) and _plain_names(node.targets):
            self._check_constant(node.value)
            node.value = _Kept().visit(node.value)
            self._bind(_names_of(node.targets))
            return node
        if isinstance(node, ast.FunctionDef):
            return self._function(node)
        raise NotTriton(f"`{_short(node)}` is not part of a kernel.")

    def _check_constant(self, node: ast.expr) -> None:
        """Allow literals, names bound above, ``float()``, ``int()``, ``tl.constexpr()``."""
        called = [part.func for part in ast.walk(node) if isinstance(part, ast.Call)]
        for part in ast.walk(node):
            if isinstance(part, ast.Attribute):
                self._check_attribute(part, set(), set())
            elif isinstance(part, ast.Name):
                makes = part in called and part.id in ("float", "int")
                if not makes and part.id not in self._bound | set(self._paths):
                    raise NotTriton(f"`{_short(node)}` is no constant.")
            elif not isinstance(part, _EXPRESSIONS):
                raise NotTriton(f"`{_short(node)}` is no constant.")
        for function in called:
            root, chain = _dotted(function)
            path = ".".join([self._paths.get(root, root), *chain])
            if path not in ("float", "int", "triton.language.constexpr") or root in self._bound:
                raise NotTriton(f"`{_short(function)}` makes no constant.")

    def _function(self, node: ast.FunctionDef) -> ast.FunctionDef:
        arguments = node.args
        if arguments.vararg or arguments.kwarg:
            raise NotTriton(f"`{node.name}`: a kernel has no *args, **kwargs.")
        for default in [*arguments.defaults, *filter(None, arguments.kw_defaults)]:
            self._check_constant(default)
        _Kept().visit(arguments)
        self._bind({node.name})
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for argument in every:
            is_constexpr = argument.annotation and "constexpr" in ast.unparse(argument.annotation)
            argument.annotation = _parsed("tl.constexpr") if is_constexpr else None
        local = {argument.arg for argument in every} | _assigned(node)
        for name in local:
            _check_new(name, _HEAD)
        # a docstring is printed over several lines, where Triton looks for the last "def "
        node.body = [s for s in node.body if not _is_text(s)] or [ast.Pass()]
        for statement in node.body:
            self._check(statement, local)
        node.body = [_Identities().visit(statement) for statement in node.body]
        if not self._compiled:
            node.body = [_AsCompiled().visit(statement) for statement in node.body]
        node.decorator_list, node.returns = [_parsed("triton.jit")], None
        return node

    def _check(self, node: ast.AST, local: set[str]) -> None:
        """Refuse everything that is not arithmetic on tensors."""
        if isinstance(node, ast.JoinedStr) and self._compiled:  # Triton's compiler formats it
            return self._check_formatted(node, local)
        if not self._compiled:
            self._keep_messages_plain(node, local)
        if isinstance(node, ast.Assign) and not _plain_names(node.targets):
            raise NotTriton(f"`{_short(node)}`: a kernel assigns to names only.")
        if isinstance(node, ast.AugAssign | ast.AnnAssign) and not _plain_names([node.target]):
            raise NotTriton(f"`{_short(node)}`: a kernel assigns to names only.")
        if isinstance(node, ast.AnnAssign):
            self._keep_annotation_plain(node)
        if isinstance(node, ast.For) and not _plain_names([node.target]):
            raise NotTriton(f"`{_short(node.target)}` cannot be a loop's variable.")
        if isinstance(node, ast.Attribute):
            if self._check_attribute(node, _MEMBERS, local):
                return
        elif isinstance(node, ast.Name):
            self._check_name(node.id, local)
        elif isinstance(node, ast.Constant):
            if not isinstance(node.value, int | float | str | None):
                raise NotTriton(f"the constant {node.value!r} is not for kernels.")
        elif isinstance(node, ast.keyword) and (node.arg is None or node.arg.startswith("_")):
            raise NotTriton(f"the argument `{_short(node)}` is not for kernels.")
        elif not isinstance(node, _STATEMENTS + _EXPRESSIONS):
            raise NotTriton(f"`{_short(node)}` ({type(node).__name__}) is not Triton.")
        for child in ast.iter_child_nodes(node):
            self._check(child, local)

    def _keep_messages_plain(self, node: ast.AST, local: set[str]) -> None:
        """Let an f-string stand in an assertion or a print of Triton's as the text it is.

        Nobody reads it here, and formatting is Python. What it names is checked all the same.
        """
        if isinstance(node, ast.Assert):
            node.msg = node.msg and self._as_text(node.msg, local)
        elif isinstance(node, ast.Call) and _short(node.func).rpartition(".")[2] in _WITH_A_MESSAGE:
            node.args = [self._as_text(part, local) for part in node.args]
            for keyword in node.keywords:
                keyword.value = self._as_text(keyword.value, local)

    def _as_text(self, node: ast.expr, local: set[str]) -> ast.expr:
        if not isinstance(node, ast.JoinedStr):
            return node
        self._check_formatted(node, local)
        return ast.Constant(_short(node))

    def _check_formatted(self, node: ast.JoinedStr, local: set[str]) -> None:
        for part in ast.walk(node):
            if isinstance(part, ast.FormattedValue):
                self._check(part.value, local)

    def _keep_annotation_plain(self, node: ast.AnnAssign) -> None:
        """Let a type stand beside an assignment: a name, a dotted name or a text."""
        if not isinstance(node.annotation, ast.Name | ast.Attribute | ast.Constant):
            raise NotTriton(f"`{_short(node.annotation)}` is no type of Triton's.")
        if "constexpr" in _short(node.annotation):
            node.annotation = _parsed("tl.constexpr")

    def _check_name(self, name: str, local: set[str]) -> None:
        if name not in local | self._bound | self._later | set(self._paths) | _BUILTINS:
            raise NotTriton(f"the name `{name}` is not for kernels.")

    def _check_attribute(self, node: ast.Attribute, members: set[str], local: set[str]) -> bool:
        """Allow ``tl.x``, ``tl.math.x``, ``triton.x`` and the methods of tensors.

        Returns whether the whole dotted path has been checked, its root included.
        """
        root, chain = _dotted(node)
        for name in chain:
            _check_tl(name)
        if root and root not in local:
            if root in self._paths:
                _check_path(self._paths[root], chain, _short(node))
                return True
            if root not in self._bound | self._later:
                raise NotTriton(f"`{_short(node)}` is not for kernels.")
        if any(name not in members for name in chain):
            raise NotTriton(f"`{_short(node)}` is not part of Triton.")
        return False


class _Kept(ast.NodeTransformer):
    """Makes tuples of lists in what outlives a launch: a kernel could count its launches there."""

    def visit_List(self, node: ast.List) -> ast.Tuple:
        self.generic_visit(node)
        return ast.Tuple(node.elts, node.ctx)


class _Identities(ast.NodeTransformer):
    """Lets ``is`` ask for None, True and False alone: which other objects are one is chance."""

    def visit_Compare(self, node: ast.Compare) -> ast.Compare:
        self.generic_visit(node)
        for i, (op, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            if type(op) in _EQUAL and not _is_single(right):
                node.ops[i] = _EQUAL[type(op)]()
        return node


class _AsCompiled(_Kept):
    """Writes what Python takes otherwise than Triton's compiler: there every list is a tuple, and
    ``is`` asks what a constant holds. A kernel could tell by it that it is only interpreted."""

    def visit_Compare(self, node: ast.Compare) -> ast.Compare:
        self.generic_visit(node)
        if type(node.ops[0]) in _EQUAL:
            node.left = ast.Call(ast.Name(_HELD, ast.Load()), [node.left], [])
        return node


def _is_single(node: ast.expr) -> bool:
    """Return whether this is written as None, True or False."""
    return isinstance(node, ast.Constant) and (node.value is None or type(node.value) is bool)


def _dotted(node: ast.expr) -> tuple[str, list[str]]:
    """Return ("a", ["b", "c"]) for ``a.b.c``; the first is empty if ``a`` is no name."""
    chain: list[str] = []
    while isinstance(node, ast.Attribute):
        chain.insert(0, node.attr)
        node = node.value
    return (node.id if isinstance(node, ast.Name) else ""), chain


def _check_tl(name: str) -> None:
    if name.startswith("_") or name in _FORBIDDEN_TL:
        raise NotTriton(f"`{name}` of Triton is not for kernels.")


def _check_new(name: str, taken: dict[str, str]) -> None:
    if name.startswith("__") or name in taken:
        raise NotTriton(f"the name `{name}` is not for kernels.")


def _check_path(path: str, chain: list[str], written: str) -> None:
    """Allow what leads from a module of Triton to an operation or a type of its language."""
    if path == "triton" and chain[0] == "language":
        path, chain = "triton.language", chain[1:]
    if path == "triton" and len(chain) == 1 and chain[0] in _OF_TRITON:
        return
    if path in _LIBDEVICE and len(chain) == 1:
        return
    if path == "triton.language" and ".".join(chain) in _CHOICES:
        return
    thing: Any = None if path == "triton" else import_module(path)
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
    raise NotTriton(f"`{written}` is not for kernels.")


def _is_language(thing: Any) -> bool:
    """Return whether this is one of Triton's operations, jitted functions, types or constants.

    A plain function is none of them: some run a text as Python (``tl.str_to_ty``).
    """
    from triton.language.core import is_builtin

    if isinstance(thing, type) and thing.__name__ not in _TYPES:
        return False
    if isinstance(thing, types.FunctionType) and not is_builtin(thing):
        return False
    home = getattr(getattr(thing, "fn", thing), "__module__", None) or type(thing).__module__
    return home.startswith("triton.language")


def _is_decorator(module: str | None, name: str) -> bool:
    homes = ("triton", "triton.runtime", "triton.runtime.jit", "triton.runtime.autotuner")
    return module in homes and name in _DECORATORS


def _makes_configs(node: ast.stmt) -> bool:
    """Return whether this is a list for ``triton.autotune``: it goes with the decorator."""
    values = [node.value] if isinstance(node, ast.Assign) else []
    calls = [part for value in values for part in ast.walk(value) if isinstance(part, ast.Call)]
    return any(ast.unparse(call.func) in ("triton.Config", "Config") for call in calls)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)


def _assigned(function: ast.FunctionDef) -> set[str]:
    """Return the names that a function binds itself: they are its own all through its body."""
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


def _names_of(targets: list[ast.expr]) -> set[str]:
    return {
        node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)
    }


def _plain_names(targets: list[ast.expr]) -> bool:
    names = []
    for target in targets:
        names += target.elts if isinstance(target, ast.Tuple) else [target]
    return all(isinstance(name, ast.Name) and name.id not in _HEAD for name in names)


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _short(node: ast.AST) -> str:
    return (ast.unparse(node).splitlines() or [""])[0][:60]
