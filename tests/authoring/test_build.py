"""course build: what is accepted, what is made of it, and what is said when it drifts."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest
from conftest import ROOT

from course_lib import __version__
from course_lib.authoring import nbgrader
from course_lib.authoring.build import built, drift, write
from course_lib.authoring.first_cell import setup_source
from course_lib.authoring.percent import BuildError
from course_lib.authoring.regions import BEGIN, END
from course_lib.authoring.repository import RELEASE, REPOSITORY
from course_lib.judging.spec import Exercise

LESSON = """\
# %% title [markdown]
# # 03 · Small
#
# A lesson of two cells.

# %% figure tags=["hide-input"]
x = "ℓ"
"""

EXERCISE = """\
# %% title [markdown]
# # 03 · Small

# %% imports
import triton
import triton.language as tl
from course_lib import check

# %% ex-3-1
def twice(x):
    \"\"\"Return 2x.\"\"\"
    ### BEGIN SOLUTION
    y = x + x
    return y
    ### END SOLUTION


# %% check-3-1
check(twice)

# %% ex-3-star
@triton.jit
def copy_kernel(x_ptr, o_ptr, n, block: tl.constexpr):
    pid = tl.program_id(0)
    ### BEGIN SOLUTION
    rows = pid * block + tl.arange(0, block)
    ### END SOLUTION
    x = tl.load(x_ptr + rows, mask=rows < n)
    if n > 0:
        ### BEGIN SOLUTION
        tl.store(o_ptr + rows, x, mask=rows < n)
        ### END SOLUTION


def copy(x, *, block=64):
    ### BEGIN SOLUTION
    return x
    ### END SOLUTION

# %% check-3-star
check(copy)
"""


def spec(id: str, function: str, signature: str, points: int = 2) -> Exercise:
    return Exercise(
        id=id,
        function=function,
        signature=signature,
        title=function,
        minutes=5,
        points=points,
        hints=("one", "two", "three"),
        cases=lambda rng: [],
        truth=lambda: None,
        judge=lambda case, observed, expected: None,
        notice="",
    )


SPECS = (spec("3.1", "twice", "(x)"), spec("3-star", "copy", "(x, *, block=64)", points=5))


@pytest.fixture
def course(tmp_path) -> Path:
    folder = tmp_path / "sources" / "03_small"
    folder.mkdir(parents=True)
    (folder / "lesson.py").write_text(LESSON, encoding="utf-8")
    (folder / "exercises.py").write_text(EXERCISE, encoding="utf-8")
    write(tmp_path, SPECS)
    return tmp_path


def edit(course: Path, old: str, new: str, kind: str = "exercises") -> None:
    source = course / "sources" / "03_small" / f"{kind}.py"
    text = source.read_text(encoding="utf-8")
    assert old in text
    source.write_text(text.replace(old, new, 1), encoding="utf-8")


def cells(course: Path, folder: str) -> dict[str, nbformat.NotebookNode]:
    notebook = nbformat.read(course / folder / "03_small.ipynb", as_version=4)
    nbformat.validate(notebook)
    return {cell.id: cell for cell in notebook.cells}


def test_three_notebooks_with_authored_ids_and_the_setup_cell_second(course):
    assert list(cells(course, "notebooks")) == ["title", "setup", "figure"]
    expected = ["title", "setup", "imports", "ex-3-1", "check-3-1", "ex-3-star", "check-3-star"]
    assert list(cells(course, "exercises")) == list(cells(course, "solutions")) == expected
    assert cells(course, "notebooks")["figure"].metadata == {"tags": ["hide-input"]}


def test_title_links_to_siblings_and_colab(course):
    title = cells(course, "exercises")["title"].source
    assert title.startswith("# 03 · Small\n")
    assert "(../notebooks/03_small.ipynb)" in title
    assert "(../solutions/03_small.ipynb)" in title
    assert "(../exercises/" not in title
    assert f"{REPOSITORY.removeprefix('https://github.com/')}/blob/{RELEASE}/exercises/" in title


def test_exercise_links_point_nowhere_without_an_exercise(tmp_path):
    folder = tmp_path / "sources" / "03_small"
    folder.mkdir(parents=True)
    (folder / "lesson.py").write_text(LESSON, encoding="utf-8")
    write(tmp_path, ())
    assert "../" not in cells(tmp_path, "notebooks")["title"].source


def test_stub_is_python_outside_kernels_and_static_assert_inside(course):
    stubs = cells(course, "exercises")
    assert stubs["ex-3-1"].source == (
        'def twice(x):\n    """Return 2x."""\n'
        '    # your code here\n    raise NotImplementedError("not attempted")'
    )
    kernel, launcher = stubs["ex-3-star"].source.split("def copy(")
    assert kernel.count('tl.static_assert(False, "not attempted")') == 2
    assert '        # your code here\n        tl.static_assert(False, "not attempted")' in kernel
    assert "raise NotImplementedError" in launcher
    assert "NotImplementedError" not in kernel


def test_solution_differs_from_exercise_only_inside_regions(course):
    exercise, solution = cells(course, "exercises"), cells(course, "solutions")
    region = re.compile(rf"^ *{BEGIN}.*?{END}$", re.DOTALL | re.MULTILINE)
    stub = re.compile(r"^ *# your code here\n.*not attempted.*$", re.MULTILINE)
    for slug in exercise:
        if slug == "title":
            continue
        theirs = stub.sub("", exercise[slug].source)
        assert region.sub("", solution[slug].source) == theirs, slug


def test_only_checks_of_exercises_may_raise(course):
    for folder, tags in (("exercises", ["raises-exception"]), ("solutions", None)):
        for slug, cell in cells(course, folder).items():
            assert cell.metadata.get("tags") == (tags if slug.startswith("check-") else None)


def test_committed_form_is_clean_and_deterministic(course):
    text = (course / "exercises/03_small.ipynb").read_text(encoding="utf-8")
    raw = json.loads(text)
    assert text.endswith("}\n")
    assert text == json.dumps(raw, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    assert (raw["nbformat"], raw["nbformat_minor"]) == (4, 5)
    assert raw["metadata"]["kernelspec"]["name"] == "python3"
    assert raw["metadata"]["language_info"] == {"name": "python"}
    code = [cell for cell in raw["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert "ℓ" in (course / "notebooks/03_small.ipynb").read_text(encoding="utf-8")


def test_nbgrader_metadata_of_answers_and_checks_and_of_nothing_else(course):
    exercise = cells(course, "exercises")
    check = exercise["check-3-star"].metadata["nbgrader"]
    assert (check["grade"], check["locked"], check["solution"]) == (True, True, False)
    assert (check["points"], check["schema_version"], check["grade_id"]) == (5, 3, "check-3-star")
    answer = exercise["ex-3-1"].metadata["nbgrader"]
    assert (answer["grade"], answer["locked"], answer["solution"]) == (False, False, True)
    marked = {slug for slug, cell in exercise.items() if "nbgrader" in cell.metadata}
    assert marked == {"ex-3-1", "check-3-1", "ex-3-star", "check-3-star"}


def test_checksum_is_the_one_that_nbgrader_computes():
    """The value below was printed by nbgrader 0.9.6's own compute_checksum for such a cell."""
    found = nbgrader.check_checksum("check-3-3", "check(stream_average)", 3)
    assert found == "c8561fe323ab97807568c4999b8c68a0"


def test_second_build_writes_nothing(course):
    assert write(course, SPECS) == []
    assert drift(course, SPECS) == []


def test_drift_names_the_file_and_its_source(course):
    notebook = course / "solutions" / "03_small.ipynb"
    notebook.write_text(notebook.read_text(encoding="utf-8").replace("x + x", "x * 2"))
    (course / "notebooks" / "03_small.ipynb").unlink()
    (course / "notebooks" / "04_gone.ipynb").write_text("{}")
    missing, changed, orphan = drift(course, SPECS)
    assert missing == "notebooks/03_small.ipynb is missing"
    assert "solutions/03_small.ipynb" in changed
    assert "sources/03_small/exercises.py" in changed
    assert "04_gone.ipynb has no source" in orphan


def test_notebooks_go_with_their_source(course):
    shutil.copytree(course / "sources" / "03_small", course / "sources" / "04_more")
    for file in (course / "sources" / "04_more").iterdir():
        file.write_text(file.read_text(encoding="utf-8").replace("# 03 ·", "# 04 ·"))
    more = [spec(e.id.replace("3", "4"), e.function, e.signature) for e in SPECS]
    for file in (course / "sources" / "04_more").iterdir():
        text = file.read_text(encoding="utf-8")
        file.write_text(re.sub(r"%% (ex|check)-3", r"%% \1-4", text), encoding="utf-8")
    made = write(course, (*SPECS, *more))
    assert len(made) == 3
    shutil.rmtree(course / "sources" / "04_more")
    assert sorted(write(course, SPECS)) == sorted(made)
    assert not any(path.exists() for path in made)


@pytest.mark.parametrize(
    "touched",
    [
        lambda raw: raw["cells"][1].update(execution_count=1),
        lambda raw: raw["metadata"]["language_info"].update(version="3.11.2"),
        lambda raw: raw.pop("metadata"),
    ],
    ids=["run", "saved by Jupyter", "no notebook that was built"],
)
def test_a_notebook_without_a_source_stays_if_it_may_hold_work(course, touched):
    raw = json.loads((course / "exercises" / "03_small.ipynb").read_text(encoding="utf-8"))
    touched(raw)
    orphan = course / "exercises" / "04_gone.ipynb"
    orphan.write_text(json.dumps(raw), encoding="utf-8")
    with pytest.raises(BuildError, match=r"04_gone.*may hold your work"):
        write(course, SPECS)
    assert orphan.exists()


def test_a_notebook_that_was_run_is_not_overwritten(course):
    """A student who types `course build` must not lose an afternoon's work."""
    path = course / "exercises" / "03_small.ipynb"
    raw = json.loads(path.read_text(encoding="utf-8"))
    raw["cells"][3] |= {"source": "def twice(x): return 2 * x", "execution_count": 4}
    path.write_text(json.dumps(raw), encoding="utf-8")
    before = path.read_bytes()
    with pytest.raises(BuildError, match="may hold your work"):
        write(course, SPECS)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("# %% imports", "# %%", r"py:4: this cell has no slug"),
        ("# %% imports", "# %% im ports!", r"py:4: 'im ports!' is no slug"),
        ("# %% imports", "# %% check-3-1", r"py:18: the slug 'check-3-1' stands on line 4"),
        ("# %% imports", "# %% setup", r"'setup' is written by the build"),
        ("# %% title [markdown]", "x = 1\n\n# %% title [markdown]", "before the first cell"),
        ("# # 03 · Small", "# # Small", r"py:1: the first cell is .*# 03 · "),
        ("    ### END SOLUTION\n", "", r"py:12: ### BEGIN SOLUTION without"),
        ("    ### BEGIN SOLUTION\n", "", r"py:14: ### END SOLUTION without"),
        ("    y = x + x", "    ### BEGIN SOLUTION", r"py:13: ### BEGIN SOLUTION inside"),
        ("### BEGIN SOLUTION", "## BEGIN SOLUTION", r"py:12: a marker is exactly"),
        ("    y = x + x", "    y = x +", r"py:13: this is no Python"),
        ("def twice(x)", "def twice(x, y)", r"py:9: .* must define twice\(x\) once"),
        ("def twice(x)", "def double(x)", r"py:9: .* must define twice\(x\) once"),
        ("check(twice)", "check(double)", r"py:18: .* must call check\(twice\)"),
        ("# %% check-3-1", "# %% test-3-1", r"no check cell 'check-3-1'"),
        ("# %% ex-3-1", "# %% ex-3-2", r"no code cell 'ex-3-1'"),
        ("# %% imports", "# %% ex-9-9", r"py:4: the cell 'ex-9-9' belongs to no exercise"),
        ("import triton\n", "def copy(x): ...\n", r"py:4: copy is exercise 3-star"),
    ],
)
def test_a_source_that_cannot_be_built_is_named_with_its_line(course, old, new, says):
    edit(course, old, new)
    with pytest.raises(BuildError, match=says):
        built(course, SPECS)


def test_a_lesson_has_no_solution_regions(course):
    edit(course, 'x = "ℓ"', f"{BEGIN}\nx = 1\n{END}", kind="lesson")
    with pytest.raises(BuildError, match="a lesson has no solution regions"):
        built(course, SPECS)


def test_every_spec_of_a_lesson_that_exists_needs_its_cell(course):
    extra = spec("3.2", "thrice", "(x)")
    with pytest.raises(BuildError, match=r"exercise 3.2 has no code cell 'ex-3-2'"):
        built(course, (*SPECS, extra))
    built(course, (*SPECS, spec("4.1", "later", "(x)")))  # its lesson is not written yet


def test_setup_cell_is_short_and_only_imports_outside_colab():
    source = setup_source()
    assert len(source.splitlines()) <= 12
    tree = ast.parse(re.sub(r"^( *)!pip .*", r"\1pass", source, flags=re.MULTILINE))
    guarded = [node for node in tree.body if isinstance(node, ast.If)]
    assert all("google.colab" in ast.unparse(node.test) for node in guarded)
    first, tried, page = [node for node in tree.body if not isinstance(node, ast.If)]
    assert ast.unparse(first) == "import sys"
    assert [ast.unparse(node) for node in tried.body] == ["import course_lib.doctor"]
    assert ast.unparse(page) == "course_lib.set_page()"
    assert "--no-deps" in source
    assert f"git+{REPOSITORY}@v{__version__}" in source


def test_where_the_course_is_missing_the_setup_cell_says_one_sentence(tmp_path):
    """As on Colab when pip failed: nothing but the sentence, and no traceback."""
    code = re.sub(r"^( *)!pip .*", r"\1pass", setup_source(), flags=re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith("The course is not installed. On Colab: run this cell again")
    assert len(done.stderr.splitlines()) == 1


def test_each_link_to_a_neighbour_has_an_address_for_colab_beside_it(course):
    for folder in ("notebooks", "exercises", "solutions"):
        title = cells(course, folder)["title"].source
        relative = re.findall(r"\]\(\.\./([^)]*)\)", title)
        assert len(relative) == 2
        for path in relative:
            assert re.search(rf"\]\(https://colab[^)]*/blob/{RELEASE}/{re.escape(path)}\)", title)


def test_exercises_say_how_to_hand_in(course):
    assert "File > Download > Download .ipynb" in cells(course, "exercises")["title"].source
    assert "Download" not in cells(course, "solutions")["title"].source


def test_repository_address_stands_in_one_place():
    """In code, that is: README and pyproject may tell people where the course lives."""
    files = [*ROOT.glob("course_lib/**/*.py"), *ROOT.glob("sources/**/*.py")]
    holders = [f.name for f in files if REPOSITORY in f.read_text(encoding="utf-8")]
    assert holders == ["repository.py"]


def test_version_stands_in_one_place():
    """A branch changes under a class; a tag does not. pyproject.toml reads the version."""
    assert f"v{__version__}" == RELEASE
    holders = [f for f in ROOT.glob("course_lib/**/*.py") if f'"{__version__}"' in f.read_text()]
    assert [f.parent.name for f in holders] == ["course_lib"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["dynamic"] == ["version"]
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_no_two_build_runs_differ(tmp_path, course):
    """Nothing random, no time, no path of this machine gets into a notebook."""
    shutil.copytree(course / "sources", tmp_path / "again" / "sources")
    first = {path.name: text for path, text in built(course, SPECS).items()}
    second = {path.name: text for path, text in built(tmp_path / "again", SPECS).items()}
    assert first == second
