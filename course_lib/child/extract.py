"""A kernel or launcher with everything it names, as the source of one stand-alone file.

The one module that knows how to carry a student's code out of a notebook cell, a file or the
course itself: `count`, the compile check, ``course export`` and the sandbox all use it.

Functions and classes of the student's own (from a notebook, a test, any file that is not
installed) are copied; what comes from installed packages is imported; constants are written out
as literals. What else a launcher or helper names (a logger, a lambda, an object of a class of one's
own) is made again by the statement that made it. A name that is none of these gets a sentence
(`NotExtractable`).
"""

from __future__ import annotations

import builtins
import inspect
import math
import sys
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

from course_lib.child.definition import (
    NotExtractable,
    attribute_chains,
    globals_of,
    names_used,
    postpones_annotations,
    source_of,
)
from course_lib.child.homes import (
    COURSE,
    described,
    import_line,
    is_students,
    same,
    stays_importable,
    unwrap,
)
from course_lib.child.leaked_names import refuse_leaked
from course_lib.child.statement import binding_statement, is_made_of

_FUTURE = "from __future__ import annotations"
_SET_BY_PYTHON = {"__name__", "__file__", "__doc__", "__builtins__", "__spec__", "__package__"}


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
        function: a Python function, a ``@triton.jit`` function, also autotuned; or a class.
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
    name = (function if isinstance(function, type) else python_function(function)).__name__
    asker = inspect.unwrap(function) if isinstance(function, FunctionType) else None
    gathering.add(name, function, f"`{name}`", asker)
    return Extract(gathering.text(), name, gathering.origins)


def python_function(function: Any) -> FunctionType:
    """Take off the wrappers of jit, heuristics and autotune: they all keep it in ``.fn``."""
    inner = unwrap(function)
    if not isinstance(inner, FunctionType):
        raise NotExtractable(f"a function is needed here, got {described(function)}.")
    if inner.__name__ == "<lambda>":
        raise NotExtractable("a lambda has no source of its own: write it with `def`, by name.")
    return inner


def _has_source(thing: FunctionType | type) -> bool:
    """Say whether a ``def`` or ``class`` made it: a lambda has none, nor has a namedtuple."""
    try:
        return bool(source_of(thing))
    except NotExtractable:
        return False


# every child can import what stands in these rooms of the course
_OF_CHILDREN = (f"{COURSE}.child.", f"{COURSE}.sandbox.")


@dataclass
class _Gathering:
    """The file so far: imports, constants and definitions, dependencies first."""

    inline_library: bool
    leave_undefined: bool
    origins: dict[str, tuple[str, int]] = field(default_factory=dict)
    _bound: dict[str, Any] = field(default_factory=dict)  # name in the file -> object
    _open: list[str] = field(default_factory=list)  # names whose object is being brought
    _imports: set[str] = field(default_factory=set)
    _constants: list[str] = field(default_factory=list)
    _definitions: list[str] = field(default_factory=list)
    _future: bool = False

    def add(
        self, name: str, value: Any, user: str, asker: FunctionType | type | None = None
    ) -> None:
        """Bind ``name`` to ``value``, which ``user`` (a quoted function name) needs.

        ``asker`` is the plain function or class whose global it is; None for a kernel's.
        """
        if name in self._bound:
            if same(self._bound[name], value):
                return
            raise NotExtractable(
                f"two different things are called `{name}` in the code behind {user}: rename one."
            )
        self._bound[name] = value
        self._open.append(name)
        self._bring(name, value, user, asker)
        self._open.pop()

    def _bring(self, name: str, value: Any, user: str, asker: FunctionType | type | None) -> None:
        """Import, copy or write out ``value``, which ``name`` is bound to now."""
        inner = unwrap(value)
        if isinstance(value, ModuleType):
            self._add_module(name, value, user)
        elif isinstance(inner, (FunctionType, type)) and self._is_copied(inner):
            if _has_source(inner) or not self._add_statement(name, value, asker):
                self._add_definition(name, inner, kernel=inner is not value)
        elif (imported := import_line(name, value)) is not None:
            self._imports.add(imported)
        elif (literal := self._literal(value)) is not None:
            self._constants.append(f"{name} = {literal}")
        elif not self._add_statement(name, value, asker):
            says = (
                f"{user} uses the global `{name}`, {described(value)}, which cannot be copied "
                "into a file: pass it as an argument, or create it inside the function."
            )
            if isinstance(value, dict | list | set):  # whose contents have no literal: tensors, say
                says += " What one call keeps in it for the next is no part of an answer."
            raise NotExtractable(says)

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
        if module.partition(".")[0] == COURSE:
            return self.inline_library and not module.startswith(_OF_CHILDREN)
        return is_students(thing)

    def _add_module(self, name: str, module: ModuleType, user: str) -> None:
        path = module.__name__
        if not stays_importable(module):
            raise NotExtractable(
                f"{user} uses `{name}`, a module of your own, which other processes may not "
                f"find: write `from {path} import ...` instead, so that its functions are copied."
            )
        self._imports.add(f"import {path}" if path == name else f"import {path} as {name}")

    def _add_statement(self, name: str, value: Any, asker: FunctionType | type | None) -> bool:
        """Copy the statement that made ``value``; False if there is none (a tensor is an input)."""
        if asker is None or (type(value).__module__, type(value).__name__) == ("torch", "Tensor"):
            return False
        return self._copy_statement(name, asker)

    def _copy_statement(self, name: str, asker: FunctionType | type, above: int = 0) -> bool:
        """Copy it after what it names: of a name that is bound once more below, the older thing."""
        namespace = globals_of(asker)
        found = binding_statement(name, namespace, asker, above=above)
        if found is None:
            return False
        statement, place = found
        own = [name] if is_made_of(name, statement) else []
        for used in [*own, *names_used(statement, without_annotations=False)]:
            if used not in namespace or used in _SET_BY_PYTHON:
                continue
            if used in self._open:
                self._copy_statement(used, asker, place)
            else:
                self.add(used, namespace[used], f"`{name}`", asker)
        self._definitions.append(statement)
        return True

    def _add_definition(self, name: str, thing: FunctionType | type, *, kernel: bool) -> None:
        source, file, line = source_of(thing)
        own = thing.__name__
        if own != name:  # an alias: `load = load_tile`
            self.add(own, thing, f"`{name}`", None if kernel else thing)
            self._definitions.append(f"{name} = {own}")
            return
        future = postpones_annotations(thing)
        self._future |= future
        namespace = globals_of(thing)
        names = names_used(source, without_annotations=future)
        names.sort(key=lambda n: not isinstance(namespace.get(n), ModuleType))  # constants use them
        for used in names:
            if used == own or used in _SET_BY_PYTHON:
                continue
            if used in namespace:
                refuse_leaked(used, namespace, thing)
                self.add(used, namespace[used], f"`{own}`", None if kernel else thing)
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
        for chain in attribute_chains(source, name):
            path = value.__name__
            for part in chain:
                path = f"{path}.{part}"
                if not isinstance(sys.modules.get(path), ModuleType):
                    break
                if path.partition(".")[0] == name:
                    self._imports.add(f"import {path}")

    def _literal(self, value: Any) -> str | None:
        """Return Python source for a constant, None if there is none."""
        if isinstance(value, float):  # NumPy's float64 too, as in tl.constexpr(np.log2(np.e))
            return repr(float(value)) if math.isfinite(value) else f'float("{float(value)}")'
        if value is None or type(value) in {bool, int, complex, str, bytes}:
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
        written = [self._literal(item) for item in value]
        items = [text for text in written if text is not None]
        if len(items) < len(written):
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
