"""The text of a compiled kernel (Triton's IR, as sm_80 gets it), read into functions to run.

Triton's frontend makes this of a kernel's source; everything after it keeps what it says. So who
runs it sees what a GPU is told to do, whatever the interpreter makes of the source. Its printed
form is the same from Triton 3.4 to 3.9 as far as it is read here; what is not known is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

_NAME = r"%[\w$.-]+(?:#\d+)?"
_NAMES = re.compile(_NAME)
_OP = re.compile(rf'(?:((?:{_NAME}(?::\d+)?(?:, )?)+) = )?"?([a-z]\w*\.[\w.]+)"?(.*)')
_LABEL = re.compile(r"\^(\w+)(?:\((.*)\))?:")
_FUNCTION = re.compile(r"tt\.func .*?@([^\s(]+)\((.*)\)")
_TYPE = re.compile(r"tensor<((?:\d+x)*)(.+?)>")
_ARGUMENT = re.compile(r"(%[\w$.-]+): ")
_INSIDE = r"(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*"
_PLACE = re.compile(rf" ?loc\({_INSIDE}\)")

Env = dict[str, Any]  # what each name of a function stands for
Step = Callable[[Env], Any]


class NotUnderstood(Exception):
    """A compiled kernel does something that nobody here can follow; the message names it."""


@dataclass(frozen=True)
class Type:
    """A tile's shape, None for a single number, and its elements: "f32", "!tt.ptr<f16>"."""

    shape: tuple[int, ...] | None
    element: str

    @property
    def to(self) -> str:
        """What its elements point to, "" if they are no addresses."""
        found = re.fullmatch(r"!tt\.ptr<(.+?)(?:, \d+)?>", self.element)
        return found[1] if found else ""


@dataclass
class Op:
    """One operation: its name, operands and results, the rest of its line.

    ``types`` are those of its results, ``source`` that of its first operand, where one is printed.
    """

    name: str
    operands: list[str]
    results: list[str]
    rest: str
    types: list[Type]
    source: Type
    regions: list[Region] = field(default_factory=list)


@dataclass
class Block:
    """Operations in a row, the last of which says where to go."""

    label: str
    arguments: list[str]
    ops: list[Op] = field(default_factory=list)


Region = list[Block]


@dataclass
class Function:
    """One function: the names of its arguments, their types, its body; a kernel is launched."""

    is_kernel: bool
    arguments: list[str]
    types: list[Type]
    body: Region


def read(text: str) -> dict[str, Function]:
    """Return the functions of a module, by name. Raises NotUnderstood."""
    lines = iter([*_plain(text)])
    functions = {}
    for line in lines:
        if found := _FUNCTION.match(line):
            arguments = _split(found[2])
            names = [_ARGUMENT.match(a)[1] for a in arguments]  # type: ignore[index]
            types = [type_of(a.partition(": ")[2].partition(" {")[0]) for a in arguments]
            is_kernel = " public " in line
            functions[found[1]] = Function(is_kernel, names, types, _region(lines, names)[0])
    if not any(function.is_kernel for function in functions.values()):
        raise NotUnderstood("a module without a kernel")
    return functions


def lines_of(text: str, name: str) -> set[int]:
    """Return the lines of a source file that a module's operations come from.

    The file is known by its ``name``: what Triton's cache knows was compiled in another folder.
    """
    return {int(n) for n in re.findall(rf'[/"]{re.escape(name)}":(\d+):\d+', text)}


def type_of(text: str) -> Type:
    """Return a type by its text."""
    text = text.strip()
    if found := _TYPE.match(text):
        inside = text[len("tensor<") : -1]
        sizes = found[1]
        return Type(tuple(int(n) for n in sizes.split("x")[:-1]), inside[len(sizes) :])
    return Type(None, text)


def _plain(text: str) -> Iterator[str]:
    """Yield the lines without places, comments and texts; only names of operations are quoted."""
    for raw in text.splitlines():
        line = re.sub(r'"([^"]*)"', _without_texts, raw)
        line = _PLACE.sub("", line).partition("//")[0].strip()
        if line and not line.startswith("#"):
            yield line


def _without_texts(found: re.Match[str]) -> str:
    return found[0] if re.fullmatch(r"tt\.\w+", found[1]) else '""'


def _region(lines: Iterator[str], arguments: Sequence[str] = ()) -> tuple[Region, str]:
    """Read up to the line that closes a region; return its blocks, and that line."""
    blocks = [Block("", list(arguments))]
    for line in lines:
        if line.startswith("}"):
            return blocks if blocks[0].ops or len(blocks) == 1 else blocks[1:], line
        if found := _LABEL.match(line):
            blocks.append(Block(found[1], _ARGUMENT.findall(found[2] or "")))
            continue
        blocks[-1].ops.append(_op(line, lines))
    raise NotUnderstood("its end")


def _op(line: str, lines: Iterator[str]) -> Op:
    found = _OP.fullmatch(line)
    if not found:
        raise NotUnderstood(f"`{line[:60]}`")
    given, name, rest = found.groups()
    results = [one for part in (given or "").split(", ") if part for one in _numbered(part)]
    source, types = _types(rest)
    op = Op(name, _NAMES.findall(_before_types(rest)), results, rest, types, source)
    if name == "tt.addptr":  # what is printed last is what is added
        op.types = [source]
    if not line.endswith("{"):
        return op
    end = "} else {"
    while end.endswith("{") and not re.match(r"\} \{.*\}$", end):
        region, end = _region(lines)
        op.regions.append(region)
    if end.startswith("})"):
        op.source, op.types = _types(end[2:])
    return op


def _numbered(result: str) -> list[str]:
    name, several, n = result.partition(":")
    return [f"{name}#{i}" for i in range(int(n))] if several else [name]


def _before_types(rest: str) -> str:
    """Return the part of a line with the operands."""
    return re.sub(r"<?\{[^{}]*\}>?", "", rest).rpartition(" : ")[0] or rest


def _types(rest: str) -> tuple[Type, list[Type]]:
    """Return the type of the first operand and those of the results, as a line ends with them."""
    given = results = re.sub(r"<?\{[^{}]*\}>?", "", rest).rpartition(" : ")[2]
    for arrow in (" -> ", " to "):
        if arrow in given:
            given, _, results = given.rpartition(arrow)
            break
    else:
        results = (_split(given) or [""])[-1]
    first = (_split(_bare(given)) or [""])[0]
    return type_of(first), [type_of(one) for one in _split(_bare(results))]


def _bare(types: str) -> str:
    return types.strip().removeprefix("(").removesuffix(")")


def _split(text: str) -> list[str]:
    """Split at commas that stand in no bracket."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "<({[") - (letter in ">)}]" and text[i - 1] != "-")
        if letter == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()] if text.strip() else []
