"""What all tests share: one thread, a store of their own, and no silent skipping."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch; several tests run at a time

import pytest
from drawn import sweep_all_but_few
from lesson_of import lessons_of
from made_once import MadeOnce
from warm_children import WarmChildren
from warm_kernels import WarmKernels

import course_lib  # noqa: F401  first of all: it chooses Triton's mode
from course_lib import _mode, lessons, specs
from course_lib.child import process
from course_lib.classroom import batch, grade_one, job
from course_lib.judging.seen import Seen
from course_lib.judging.spec import Exercise
from course_lib.lessons import Lesson
from course_lib.sandbox.workshop import Workshop

sys.modules.setdefault("rfc3987_syntax", None)  # `course_lib/authoring/percent.py` says why

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM = Path("/usr/bin/chromium")
BROWSER_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
REQUIRED = os.environ.get("COURSE_REQUIRE_BROWSER", "") not in {"", "0"}


def lesson_name(number: int) -> str:
    """Return the name of a lesson's folder in sources/, which its notebooks share."""
    (folder,) = (ROOT / "sources").glob(f"{number:02}_*")
    return folder.name


@pytest.fixture
def given(monkeypatch) -> Callable[..., None]:
    """Return a function that makes the exercises it is given the whole course."""

    def make(*exercises: Exercise) -> None:
        numbers = sorted({exercise.lesson for exercise in exercises})
        by_lesson = {n: tuple(e for e in exercises if e.lesson == n) for n in numbers}
        made = tuple(
            Lesson(
                number=number,
                part="I",
                title="Small",
                writes="little",
                needs=("numpy",),
                minutes=5,
                exercises=mine,
            )
            for number, mine in by_lesson.items()
        )
        monkeypatch.setattr(lessons, "all_lessons", lambda: made)
        monkeypatch.setattr(specs, "of_lesson", by_lesson.__getitem__)

    return make


@pytest.fixture(scope="session")
def stores(tmp_path_factory) -> Iterator[Path]:
    """Give names of stores in one folder: thousands of tests need a name, few write a file."""
    folder = tmp_path_factory.mktemp("stores")
    return (folder / f"{number}.json" for number in itertools.count())


@pytest.fixture(autouse=True)
def own_store(stores, monkeypatch) -> Path:
    """Keep a test's attempts and predictions away from the developer's own."""
    store = next(stores)
    monkeypatch.setenv("COURSE_STORE", str(store))
    return store


@pytest.fixture(scope="session", autouse=True)
def made_once() -> Iterator[None]:
    """Compute what a known mistake makes of a case once in this run."""
    once = MadeOnce()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Seen, "__init__", lambda *args, **kwargs: once.init(*args, **kwargs))
        yield


@pytest.fixture(scope="session")
def nurse(tmp_path_factory) -> Iterator[WarmChildren]:
    """Give the processes that fork this run's children (`warm_children` says why)."""
    nurse = WarmChildren(tmp_path_factory.mktemp("nurse"))
    yield nurse
    nurse.close()


@pytest.fixture(scope="session")
def kernels(tmp_path_factory) -> Iterator[WarmKernels]:
    """Give the process that forks this run's kernels of notebooks (`warm_kernels` says why)."""
    kernels = WarmKernels(tmp_path_factory.mktemp("kernels"))
    yield kernels
    kernels.close()


def can_fork() -> bool:
    """Return whether a process with torch may be forked here; a GPU's driver survives no fork."""
    return hasattr(os, "pidfd_open") and not _mode.cuda_devices()


@pytest.fixture(autouse=True)
def warm_children(request, monkeypatch) -> None:
    """Let the children of `course_lib.child` be forked."""
    if can_fork():
        monkeypatch.setattr(process, "_start", request.getfixturevalue("nurse").start)


@pytest.fixture
def own_kernel(request, monkeypatch, tmp_path) -> None:
    """Run notebooks with nobody's settings, in this environment; their kernels are forks, too."""
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    monkeypatch.delenv("JUPYTER_PATH", raising=False)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    if can_fork():
        request.getfixturevalue("nurse").of_a_kernel(tmp_path / "ipython")
        spec = request.getfixturevalue("kernels").jupyter_path
        monkeypatch.setenv("JUPYTER_PATH", str(spec))


@pytest.fixture(scope="session")
def workshop() -> Iterator[Workshop]:
    """Give the zygotes of this test run; one that a test kills is replaced when next asked for."""
    with job.workshop() as workshop:
        yield workshop


@pytest.fixture
def no_workers(workshop, monkeypatch) -> None:
    """Grade a class in this process and workshop: a worker and its zygotes take six seconds."""

    def work(waiting, job, *_):
        chosen = job.chosen()
        return ((one, grade_one.grade(workshop, one, chosen, job.secret)) for one in waiting)

    monkeypatch.setattr(batch, "_work", work)


@pytest.fixture(scope="session")
def chromium() -> Path:
    """Return the browser; skip where there is none, fail where it may not be missing."""
    if CHROMIUM.exists():
        return CHROMIUM
    if REQUIRED:
        pytest.fail(f"{CHROMIUM} is missing, and COURSE_REQUIRE_BROWSER forbids to skip")
    pytest.skip(f"there is no {CHROMIUM}: run .ci/install_browser")


@pytest.fixture(scope="session")
def node() -> Path:
    """Return node, which runs the widgets' modules; skip where it is missing, or fail, likewise."""
    if found := shutil.which("node"):
        return Path(found)
    if REQUIRED:
        pytest.fail("node is missing, and COURSE_REQUIRE_BROWSER forbids to skip")
    pytest.skip("NODE IS MISSING: the widgets' JavaScript was not compared with Python")


def pytest_addoption(parser) -> None:
    parser.addoption(
        "--lesson", action="append", default=[], metavar="NN", help="run what concerns a lesson"
    )


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(config, items) -> None:
    """Sweep what is many; leave out other lessons, if one is asked for, and GPUs that are not."""
    sweep_all_but_few(items)
    if wanted := {int(number) for number in config.getoption("lesson")}:
        others = [item for item in items if not lessons_of(item) & wanted]
        items[:] = [item for item in items if lessons_of(item) & wanted]
        config.hook.pytest_deselected(items=others)
    if _mode.cuda_devices():
        return
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA GPU"))


def pytest_collection() -> None:
    """Look for no garbage while tests are collected: what is made then stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Look for garbage again, but never among modules and collected tests."""
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter) -> None:
    """Say it loudly when browser tests did not run: green without them is half the truth."""
    skipped = [
        r
        for r in terminalreporter.stats.get("skipped", [])
        if "browser" in getattr(r, "keywords", ())
    ]
    if skipped:
        terminalreporter.section("BROWSER TESTS DID NOT RUN", sep="!", red=True)
        for reason in sorted({str(r.longrepr[2]) for r in skipped}):
            terminalreporter.line(f"{len(skipped)} skipped: {reason}")


@pytest.fixture(scope="session")
def browser(chromium: Path) -> Iterator[Any]:
    """Give one Chromium to all browser tests of this run: playwright starts once a process."""
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=BROWSER_ARGUMENTS)
        yield browser
        browser.close()
