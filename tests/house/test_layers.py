"""Imports point one way and run in no circle: lazy ones and those by string included.

import-linter (`make lint`) holds the layers of pyproject.toml for import statements wherever they
stand. Here a module's path in a string counts too ("course_lib.handin.split:serve"), and so does
what ``importlib.import_module(f"{__name__}.{name}")`` may reach: every module of the package.
"""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

import grimp
from conftest import ROOT

LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
LAYERS = [layer.split(" | ") for layer in LINTER["contracts"][0]["layers"]]  # the highest first
PATH = re.compile(r"(course_lib(?:\.\w+)+)(?::\w+)?")

Graph = dict[str, set[str]]  # module -> what it imports


@cache
def all_imports() -> Graph:
    """Return every import of the course, by statement or by string."""
    statements = grimp.build_graph("course_lib", cache_dir=None)
    modules = set(statements.modules)
    return {
        module: (
            statements.find_modules_directly_imported_by(module)
            | imports_by_string(source(module), module, modules)
        )
        - {module}
        for module in modules
    }


def source(module: str) -> str:
    place = ROOT.joinpath(*module.split("."))
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return file.read_text(encoding="utf-8")


def imports_by_string(text: str, module: str, modules: set[str]) -> set[str]:
    """Return the modules of the course that strings of a module name; docstrings name none."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = PATH.fullmatch(node.value)
            found |= {named[1]} & modules if named else set()
        elif isinstance(node, ast.JoinedStr) and ast.unparse(node).startswith("f'{__name__}."):
            found |= {m for m in modules if m.rpartition(".")[0] == module}
    return found


def circles(graph: Graph) -> list[list[str]]:
    """Return circles of imports, one by one, each taken out before the next is looked for."""
    graph, found = {module: set(others) for module, others in graph.items()}, []
    while True:
        try:
            TopologicalSorter(graph).prepare()
            return found
        except CycleError as error:
            circle = error.args[1]  # each imports the one before it
            found.append(circle)
            for imported, importer in pairwise(circle):
                graph[importer].discard(imported)


def ways_up(graph: Graph) -> set[tuple[str, str]]:
    """Return the imports from a layer to one above it, or to one beside it."""
    rank = {room: (i, j) for i, layer in enumerate(LAYERS) for j, room in enumerate(layer)}

    def place(module: str) -> tuple[int, int] | None:
        return rank.get(".".join(module.split(".")[:2]))

    return {
        (importer, imported)
        for importer, others in graph.items()
        for imported in others
        if (a := place(importer)) and (b := place(imported)) and (b[0] < a[0] or is_beside(a, b))
    }


def is_beside(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] == b[0] and a != b


def test_no_import_runs_in_a_circle():
    assert {frozenset(circle) for circle in circles(all_imports())} == set()


def test_no_import_points_up():
    assert ways_up(all_imports()) == set()


def test_every_room_has_its_layer():
    rooms = {m for m in all_imports() if m.count(".") == 1} - {"course_lib._mode"}
    assert rooms == {room for layer in LAYERS for room in layer}


def test_both_tests_above_can_fail():
    """A lazy import, one by string and one by f-string are seen, as a circle and as a way up."""
    text = 'TASK = "course_lib.handin.split:serve"\nimport_module(f"{__name__}.{name}")\n'
    modules = {"course_lib.handin.split", "course_lib.child.a", "course_lib.child.b"}
    assert imports_by_string(text, "course_lib.child", modules) == modules
    up = ("course_lib.child", "course_lib.handin.split")
    assert ways_up({up[0]: {up[1]}}) == {up}
    beside = ("course_lib.demo", "course_lib.widgets.base")
    assert ways_up({beside[0]: {beside[1]}}) == {beside}
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}}) != []


def test_no_python_that_the_course_starts_imports_from_the_folder_it_is_started_in():
    """A file that is called like a module may lie there: a hand-in, where a class is graded."""
    commands = {
        f"{file.relative_to(ROOT)}:{node.lineno}": [ast.unparse(word) for word in node.elts[1:2]]
        for file in sorted((ROOT / "course_lib").rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.List | ast.Tuple)
        and node.elts
        and ast.unparse(node.elts[0]) == "sys.executable"
    }
    assert len(commands) > 5
    assert not [place for place, flag in commands.items() if flag not in (["'-P'"], ["'-I'"])]
