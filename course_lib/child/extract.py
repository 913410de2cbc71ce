"""A kernel or launcher with everything it names, as the source of one stand-alone file.

The one module that knows how to carry a student's code out of a notebook cell, a file or the
course itself: `count`, the compile check, ``course export`` and the sandbox all use it.

Functions and classes of the student's own (from a notebook, a test, any file that is not
installed) are copied; what comes from installed packages is imported; constants are written out
as literals. A name that is none of these gets a sentence (`NotExtractable`).
"""

from __future__ import annotations
import __future__

import ast
import builtins
import inspect
import linecache
import math
import symtable
import sys
import sysconfig
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

_COURSE = "course_lib"
_FUTURE = "from __future__ import annotations"
_SET_BY_PYTHON = {"__name__", "__file__", "__doc__", "__builtins__", "__spec__", "__package__"}
_LOOK_IN = ("typing", "collections.abc", "math", "torch", "triton", "triton.language", "numpy")


class NotExtractable(ValueError):
    """A name cannot be carried into a file of its own; the message says which and what to do."""


@dataclass(frozen=True)
class Extract:
    """A stand-alone file and where its pieces came from.

    Attributes:
        source: the text of the file.
        name: the global name of the function asked for.
        origins: copied function -> (file or cell, line of its ``def`` there).
    """

    source: str
    name: str
    origins: dict[str, tuple[str, int]]


def to_source(function: Any, inline_library: bool = False) -> str:
    """Return ``function`` (kernel, launcher or plain) as the source of one stand-alone file.

    Args:
        function: a Python function, a ``@triton.jit`` function, also autotuned.
        inline_library: copy functions of ``course_lib`` too instead of importing them.

    Raises:
        NotExtractable: if a name it uses is missing, or cannot be copied, imported or written
            as a literal.
    """
    return extract(function, inline_library).source


def extract(
    function: Any, inline_library: bool = False, *, leave_undefined: bool = False
) -> Extract:
    """Like `to_source`, with the name to call and where every piece came from.

    ``leave_undefined`` leaves a name that is nowhere defined as it is: the copy raises NameError
    where the original does, and not before.
    """
    gathering = _Gathering(inline_library, leave_undefined)
    name = python_function(function).__name__
    gathering.add(name, function, f"`{name}`")
    return Extract(gathering.text(), name, gathering.origins)


def python_function(function: Any) -> FunctionType:
    """Take off the wrappers of jit, heuristics and autotune: they all keep it in ``.fn``."""
    inner = _unwrap(function)
    if not isinstance(inner, FunctionType):
        raise NotExtractable(f"a function is needed here, got {_described(function)}.")
    if inner.__name__ == "<lambda>":
        raise NotExtractable("a lambda has no source of its own: write it with `def`, by name.")
    return inner


def _unwrap(value: Any) -> Any:
    while not isinstance(value, (FunctionType, type, ModuleType)) and hasattr(value, "fn"):
        value = value.fn
    return value


@dataclass
class _Gathering:
    """The file so far: imports, constants and definitions, dependencies first."""

    inline_library: bool
    leave_undefined: bool
    origins: dict[str, tuple[str, int]] = field(default_factory=dict)
    _bound: dict[str, Any] = field(default_factory=dict)  # name in the file -> object
    _imports: set[str] = field(default_factory=set)
    _constants: list[str] = field(default_factory=list)
    _definitions: list[str] = field(default_factory=list)
    _future: bool = False

    def add(self, name: str, value: Any, user: str) -> None:
        """Bind ``name`` to ``value``, which ``user`` (a quoted function name) needs."""
        if name in self._bound:
            if _same(self._bound[name], value):
                return
            raise NotExtractable(
                f"two different things are called `{name}` in the code behind {user}: rename one."
            )
        self._bound[name] = value
        inner = _unwrap(value)
        if isinstance(value, ModuleType):
            self._add_module(name, value, user)
        elif isinstance(inner, (FunctionType, type)) and self._is_copied(inner):
            self._add_definition(name, inner)
        elif (imported := _import_line(name, value)) is not None:
            self._imports.add(imported)
        elif (literal := self._literal(value)) is not None:
            self._constants.append(f"{name} = {literal}")
        else:
            raise NotExtractable(
                f"{user} uses the global `{name}`, {_described(value)}, which cannot be copied "
                "into a file: pass it as an argument, or create it inside the function."
            )

    def text(self) -> str:
        """Return the file: imports, constants, then definitions two lines apart."""
        plain = sorted(line for line in self._imports if line.startswith("import "))
        froms = sorted(line for line in self._imports if line.startswith("from "))
        blocks = [_FUTURE] if self._future else []
        if self._imports:
            blocks.append("\n".join(plain + froms))
        if self._constants:
            blocks.append("\n".join(self._constants))
        head = "\n\n".join(blocks)
        return "\n\n\n".join([head, *self._definitions] if head else self._definitions) + "\n"

    def _is_copied(self, thing: Any) -> bool:
        module = getattr(thing, "__module__", None) or ""
        if module.partition(".")[0] == _COURSE:
            return self.inline_library
        return _is_students(thing)

    def _add_module(self, name: str, module: ModuleType, user: str) -> None:
        path = module.__name__
        if not _stays_importable(module):
            raise NotExtractable(
                f"{user} uses `{name}`, a module of your own, which other processes may not "
                f"find: write `from {path} import ...` instead, so that its functions are copied."
            )
        self._imports.add(f"import {path}" if path == name else f"import {path} as {name}")

    def _add_definition(self, name: str, thing: FunctionType | type) -> None:
        source, file, line = _source_of(thing)
        own = thing.__name__
        if own != name:  # an alias: `load = load_tile`
            self.add(own, thing, f"`{name}`")
            self._definitions.append(f"{name} = {own}")
            return
        future = _postpones_annotations(thing)
        self._future |= future
        namespace = _namespace(thing)
        names = _names_used(source, without_annotations=future)
        names.sort(key=lambda n: not isinstance(namespace.get(n), ModuleType))  # constants use them
        for used in names:
            if used == own or used in _SET_BY_PYTHON:
                continue
            if used in namespace:
                _refuse_leaked(used, namespace, thing)
                self.add(used, namespace[used], f"`{own}`")
                self._add_submodules(used, namespace[used], source)
            elif not (self.leave_undefined or hasattr(builtins, used)):
                raise NotExtractable(
                    f"`{own}` uses `{used}`, and nothing of that name is defined: import or "
                    "define it before the function is used."
                )
        self._definitions.append(source)
        if isinstance(thing, FunctionType):
            self.origins[own] = (file, line)

    def _add_submodules(self, name: str, value: Any, source: str) -> None:
        """``import xml`` does not bring ``xml.dom``: import the submodules that are named.

        (``torch`` and ``triton`` do bring theirs.)
        """
        if not isinstance(value, ModuleType) or name in {"torch", "triton"}:
            return
        for dotted in _dotted(source, name):
            path = value.__name__
            for part in dotted:
                path = f"{path}.{part}"
                if not isinstance(sys.modules.get(path), ModuleType):
                    break
                if path.partition(".")[0] == name:
                    self._imports.add(f"import {path}")

    def _literal(self, value: Any) -> str | None:
        """Return Python source for a constant, None if there is none."""
        if type(value) is float and not math.isfinite(value):
            return f'float("{value}")'
        if value is None or type(value) in {bool, int, float, complex, str, bytes}:
            return repr(value)
        if type(value) in {tuple, list, set, dict}:
            return self._container(value)
        kind = f"{type(value).__module__}.{type(value).__name__}"
        if kind == "triton.language.core.constexpr":
            inner = self._literal(value.value)
            return inner and f"{self._module('triton.language', 'tl')}.constexpr({inner})"
        if kind == "torch.dtype":
            return f"{self._module('torch', 'torch')}.{str(value).removeprefix('torch.')}"
        if kind == "torch.device":
            return f'{self._module("torch", "torch")}.device("{value}")'
        if kind == "triton.language.core.dtype":
            names = [n for n, v in vars(sys.modules["triton.language"]).items() if v is value]
            return f"{self._module('triton.language', 'tl')}.{names[0]}" if names else None
        if kind == "triton.runtime.autotuner.Config" and value.pre_hook is None:
            kept = {k: v for k, v in value.all_kwargs().items() if k not in value.kwargs}
            options = "".join(f", {k}={v!r}" for k, v in kept.items())
            return f"{self._module('triton', 'triton')}.Config({value.kwargs!r}{options})"
        return None

    def _container(self, value: Any) -> str | None:
        if isinstance(value, dict):
            pairs = [(self._literal(k), self._literal(v)) for k, v in value.items()]
            if any(None in pair for pair in pairs):
                return None
            return "{" + ", ".join(f"{k}: {v}" for k, v in pairs) + "}"
        items = [self._literal(item) for item in value]
        if None in items:
            return None
        if isinstance(value, set):
            return "{" + ", ".join(sorted(items)) + "}" if items else "set()"
        if isinstance(value, tuple):
            return "(" + ", ".join(items) + ("," if len(items) == 1 else "") + ")"
        return "[" + ", ".join(items) + "]"

    def _module(self, path: str, name: str) -> str:
        """Return a name under which module ``path`` is imported, importing it if need be."""
        module = sys.modules[path]
        for known, value in self._bound.items():
            if value is module:
                return known
        self.add(name, module, "a constant")
        return name


# Where things come from ------------------------------------------------------------------------


@cache
def _installed() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    return tuple(
        {Path(paths[key]).resolve() for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    )


def _is_own_file(file: str) -> bool:
    """Say whether a file is neither installed nor part of Python (notebook cells included)."""
    if not file or file.startswith("<frozen"):
        return False
    if not Path(file).exists():
        return True  # a cell: "<ipython-input-...>", or a file that ipykernel only names
    path = Path(file).resolve()
    if {"site-packages", "dist-packages"} & set(path.parts):
        return False
    return not any(path.is_relative_to(folder) for folder in _installed())


def _is_students(thing: Any) -> bool:
    if isinstance(thing, FunctionType):
        return _is_own_file(thing.__code__.co_filename)
    module = sys.modules.get(thing.__module__)
    if thing.__module__ == "__main__":
        return True
    return module is not None and _is_own_file(getattr(module, "__file__", None) or "")


def _stays_importable(module: ModuleType) -> bool:
    """Say whether any other process finds this module: installed, built in, or the course's."""
    if module.__name__ == "__main__":
        return False
    if module.__name__.partition(".")[0] == _COURSE:
        return True
    return not _is_own_file(getattr(module, "__file__", None) or "")


def _import_line(name: str, value: Any) -> str | None:
    """Return the import that binds ``name`` to ``value`` in any process, or None."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return None
    inner = _unwrap(value)
    homes = [getattr(value, "__module__", None), getattr(inner, "__module__", None), *_LOOK_IN]
    known = [getattr(inner, "__qualname__", None), getattr(inner, "__name__", None), name]
    for home in dict.fromkeys(h for h in homes if isinstance(h, str) and h in sys.modules):
        module = sys.modules[home]
        if not _stays_importable(module):
            continue
        for attribute in dict.fromkeys(a for a in known if isinstance(a, str) and a.isidentifier()):
            if getattr(module, attribute, None) is value:
                suffix = "" if attribute == name else f" as {name}"
                return f"from {home} import {attribute}{suffix}"
    return None


def _same(a: Any, b: Any) -> bool:
    a, b = _unwrap(a), _unwrap(b)
    if a is b:
        return True
    return type(a) is type(b) and not isinstance(a, FunctionType) and repr(a) == repr(b)


def _described(value: Any) -> str:
    shape = getattr(value, "shape", None)
    kind = type(value).__name__
    return f"a {kind} of shape {tuple(shape)}" if isinstance(shape, tuple) else f"a {kind}"


# Reading source --------------------------------------------------------------------------------


def _source_of(thing: FunctionType | type) -> tuple[str, str, int]:
    """Return (source with decorators, file, line of the ``def`` or ``class``)."""
    try:
        if isinstance(thing, type):
            lines, first, file = _class_lines(thing)
        else:
            file = thing.__code__.co_filename
            lines, first = inspect.getsourcelines(thing)
    except (OSError, TypeError) as error:
        raise NotExtractable(
            f"the source of `{thing.__name__}` cannot be found: define it in a notebook cell or a "
            "file, not through exec or an interactive prompt."
        ) from error
    source = textwrap.dedent("".join(lines)).rstrip()
    try:
        node = ast.parse(source).body[0]
    except (SyntaxError, IndexError):
        node = None
    if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name != thing.__name__:
        raise NotExtractable(
            f"the source of `{thing.__name__}` has changed since it was defined: run its cell, or "
            "import its file, again."
        )
    return source, file, first + node.lineno - 1


def _class_lines(cls: type) -> tuple[list[str], int, str]:
    """Find a class's source; in a notebook through its methods' or any cell's lines."""
    if cls.__module__ != "__main__":
        lines, first = inspect.getsourcelines(cls)
        return lines, first, inspect.getsourcefile(cls) or ""
    methods = [m for m in vars(cls).values() if isinstance(m, FunctionType)]
    files = [m.__code__.co_filename for m in methods]
    for file in dict.fromkeys([*files, *reversed(list(linecache.cache))]):
        lines = linecache.getlines(file)
        for node in _parsed("".join(lines)):
            if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                return lines[first - 1 : node.end_lineno], first, file
    raise OSError(f"no cell defines {cls.__name__}")


def _parsed(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except (SyntaxError, ValueError):
        return []


def _names_used(source: str, without_annotations: bool) -> list[str]:
    """Return the names that a definition looks up outside itself, in a fixed order."""
    if without_annotations:
        source = ast.unparse(_Unannotated().visit(ast.parse(source)))
    top = symtable.symtable(source, "<extract>", "exec")
    names = {s.get_name() for s in top.get_symbols() if s.is_referenced() and not s.is_assigned()}
    for table in _tables(top):
        names |= {s.get_name() for s in table.get_symbols() if s.is_global()}
    return sorted(names)


def _tables(top: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for table in top.get_children():
        yield table
        yield from _tables(table)


class _Unannotated(ast.NodeTransformer):
    """Drops annotations: under ``from __future__ import annotations`` nobody evaluates them."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.returns = None
        self.generic_visit(node)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        node.annotation = ast.copy_location(ast.Constant(None), node.annotation)
        return node


def _dotted(source: str, name: str) -> list[list[str]]:
    """Return the attribute chains that start at ``name``: ``a.b.c`` gives ["b", "c"]."""
    chains = []
    for node in ast.walk(ast.parse(source)):
        chain: list[str] = []
        while isinstance(node, ast.Attribute):
            chain.insert(0, node.attr)
            node = node.value
        if chain and isinstance(node, ast.Name) and node.id == name:
            chains.append(chain)
    return chains


def _postpones_annotations(thing: FunctionType | type) -> bool:
    if isinstance(thing, type):  # a dataclass has no method of its own to ask
        module = sys.modules.get(thing.__module__)
        if getattr(module, "annotations", None) is __future__.annotations:
            return True
    functions = [thing] if isinstance(thing, FunctionType) else vars(thing).values()
    flag = __future__.annotations.compiler_flag
    return any(isinstance(f, FunctionType) and f.__code__.co_flags & flag for f in functions)


def _namespace(thing: FunctionType | type) -> dict[str, Any]:
    """Return the globals of a definition, its closure over them."""
    if isinstance(thing, type):
        functions = [f for f in vars(thing).values() if isinstance(f, FunctionType)]
        names = dict(vars(sys.modules[thing.__module__]))
        for function in functions:
            names |= _closure(function)
        return names
    return thing.__globals__ | _closure(thing)


def _closure(function: FunctionType) -> dict[str, Any]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    values = {}
    for name, cell in cells:
        try:
            values[name] = cell.cell_contents
        except ValueError:
            continue  # not assigned yet: reported as missing if it is used
    return values


# Names that the interpreter leaks --------------------------------------------------------------


def _refuse_leaked(name: str, namespace: dict[str, Any], thing: Any) -> None:
    """Raise if ``name`` is only there because Triton's interpreter put it into the globals.

    Interpreting a kernel copies some 60 names (`tl`, `np`, `math` ...) into its globals, so a
    forgotten import passes here and fails on a GPU.
    """
    interpreter = sys.modules.get("triton.runtime.interpreter")
    leaked = vars(interpreter) if interpreter else {}
    if name not in leaked or leaked[name] is not namespace[name] or hasattr(builtins, name):
        return
    if not _was_written(name, namespace, thing):
        raise NotExtractable(
            f"`{thing.__name__}` uses `{name}`, which was never imported: it works here only "
            "because Triton's interpreter lends its own names, and fails on a GPU."
        )


def _was_written(name: str, namespace: dict[str, Any], thing: Any) -> bool:
    """Say whether the student's own text binds ``name`` (True where there is no text to ask)."""
    if isinstance(thing, FunctionType) and name in _closure(thing):
        return True
    texts = list(_texts(namespace, thing))
    return not texts or any(_binds(text, name) for text in texts)


def _texts(namespace: dict[str, Any], thing: Any) -> Iterator[str]:
    """Yield what may bind a global: the notebook's cells so far, or the file."""
    cells = namespace.get("In")
    if isinstance(cells, list) and "get_ipython" in namespace:
        yield from (cell for cell in cells if isinstance(cell, str))
        return
    file = thing.__code__.co_filename if isinstance(thing, FunctionType) else ""
    module = sys.modules.get(thing.__module__)
    if module is not None and getattr(module, "__file__", None):
        file = module.__file__ or file
    if Path(file).exists():
        yield "".join(linecache.getlines(file))


def _binds(text: str, name: str) -> bool:
    """Say whether a cell or file binds ``name`` at its top level, or may (``import *``)."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("%", "!", "?"))]
    try:
        tree = ast.parse("\n".join(lines))
    except (SyntaxError, ValueError):
        return name in text
    return any(name in _bound_by(node) or "*" in _bound_by(node) for node in ast.walk(tree))


def _bound_by(node: ast.AST) -> set[str]:
    """Return the names that a statement or target binds."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    return {node.id} if stored else set()
