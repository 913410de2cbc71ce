"""start.py on a fresh machine: which torch it brings, what it says, and what an old Python is told.

pip, the environment and both indexes are real; the indexes stand in for PyTorch's and for PyPI, on
127.0.0.1, and their torch holds nothing.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import http.server
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from conftest import ROOT

from course_lib import _mode

BACKEND = """
import shutil

def get_requires_for_build_editable(config=None):
    return []

def build_editable(folder, config=None, metadata=None):
    return shutil.copy("course-0-py3-none-any.whl", folder).rpartition("/")[2]
"""
COMMAND = "import sys; print('the course was asked:', *sys.argv[1:])\n"


def make_wheel(
    folder: Path, name: str, version: str, files: dict[str, str], needs: str = ""
) -> None:
    """Write a wheel that pip installs."""
    info = f"{name}-{version}.dist-info"
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = files | {
        f"{info}/METADATA": head + (f"Requires-Dist: {needs}\n" if needs else ""),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = []
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
            lines.append(f"{path},sha256={digest.decode().rstrip('=')},{len(text)}")
        wheel.writestr(f"{info}/RECORD", "\n".join([*lines, f"{info}/RECORD,,"]))


@pytest.fixture(scope="module")
def indexes(tmp_path_factory) -> Iterator[str]:
    """Serve two indexes, /cpu and /pypi, which hold torch 2.13.0+cpu and 2.13.0."""
    root = tmp_path_factory.mktemp("indexes")
    make_wheel(root / "cpu" / "torch", "torch", "2.13.0+cpu", {"torch.py": ""})
    make_wheel(root / "pypi" / "torch", "torch", "2.13.0", {"torch.py": ""})

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(root))  # its listing is an index's page

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> Path:
    """Return an empty environment with pip, made once: each test gets a copy."""
    folder = tmp_path_factory.mktemp("environment") / ".venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder


@pytest.fixture
def clone(tmp_path, environment) -> Path:
    """Return a small course beside the real start.py, constraints.txt and launcher."""
    for name in ("start.py", "course", "course.cmd", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "course_lib" / "cli").mkdir(parents=True)
    for name in ("__init__.py", "_mode.py"):
        shutil.copy(ROOT / "course_lib" / name, tmp_path / "course_lib")
    (tmp_path / "course_lib" / "cli" / "__init__.py").touch()
    (tmp_path / "course_lib" / "cli" / "__main__.py").write_text(COMMAND)
    (tmp_path / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    (tmp_path / "backend.py").write_text(BACKEND)
    make_wheel(tmp_path, "course", "0", {"course.pth": str(tmp_path)}, needs="torch>=2.8")
    shutil.copytree(environment, tmp_path / ".venv", symlinks=True)
    (tmp_path / ".venv" / ".made").touch()
    return tmp_path


def start(clone: Path, index: str, *arguments: str, **extra: str) -> subprocess.CompletedProcess:
    """Run the launcher where there is no GPU; ``index`` is the ordinary one."""
    return subprocess.run(
        [clone / "course", *arguments],
        env=settings_of(index) | extra,
        cwd=clone.parent,  # nothing hangs on where it is called
        capture_output=True,
        text=True,
    )


def settings_of(index: str) -> dict[str, str]:
    settings = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "COURSE_"))}
    settings |= {"PIP_INDEX_URL": f"{index}/pypi", "PIP_CONFIG_FILE": os.devnull}
    settings |= {"CUDA_VISIBLE_DEVICES": "", "PYTHON": sys.executable, "no_proxy": "127.0.0.1"}
    return settings | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def torch_in(clone: Path) -> str:
    (found,) = clone.glob(".venv/lib/*/site-packages/torch-*.dist-info")
    return found.name.removeprefix("torch-").removesuffix(".dist-info")


def test_without_a_gpu_the_cpu_build_comes_and_a_second_call_installs_nothing(clone, indexes):
    first = start(clone, indexes, "doctor", TORCH_INDEX=f"{indexes}/cpu")
    assert first.returncode == 0, first.stderr
    assert torch_in(clone) == "2.13.0+cpu"
    said, _, asked = first.stdout.splitlines()
    assert f"torch comes from {indexes}/cpu" in said
    assert "To change it: delete .venv, set TORCH_INDEX or PIP_ARGS" in said
    assert asked == "the course was asked: doctor"
    again = start(clone, "http://127.0.0.1:1", "check", "a b.py")
    assert again.stdout == "the course was asked: check a b.py\n"
    os.utime(clone / "constraints.txt", (time.time() + 5,) * 2)
    assert "torch comes from" in start(clone, indexes, "list").stdout


ELSEWHERE = """
import runpy, sys
import urllib.request  # before: on macOS it asks for modules that are there only
sys.platform, sys.argv = {system!r}, ["start.py", "list"]
runpy.run_path("start.py", run_name="__main__")
"""


@pytest.mark.parametrize("system", ["darwin", "win32"])
@pytest.mark.few(1)
def test_where_triton_has_no_wheels_its_interpreter_comes_once(clone, indexes, system):
    command = [sys.executable, "-c", ELSEWHERE.format(system=system)]
    for asked in (["triton", "list"], ["list"]):
        done = subprocess.run(
            command, env=settings_of(indexes), cwd=clone, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        said = [line for line in done.stdout.splitlines() if "was asked" in line]
        assert said == [f"the course was asked: {what}" for what in asked]


def test_an_index_that_does_not_answer_costs_seconds_and_a_sentence(clone, indexes):
    begun = time.monotonic()
    done = start(clone, indexes, "list", TORCH_INDEX="http://127.0.0.1:1/cpu")
    assert time.monotonic() - begun < 60
    assert done.returncode == 0, done.stderr
    assert torch_in(clone) == "2.13.0"
    assert "does not answer within 5 seconds: torch comes from the ordinary index" in done.stdout
    assert len(done.stdout.splitlines()) == 3


def test_pip_args_win(clone, indexes):
    extra = f"--extra-index-url {indexes}/cpu"
    done = start(clone, indexes, "list", PIP_ARGS=extra, TORCH_INDEX="http://127.0.0.1:1")
    assert done.returncode == 0, done.stderr
    assert f"torch comes from where PIP_ARGS says: {extra}." in done.stdout
    assert torch_in(clone) == "2.13.0+cpu"


def test_an_installation_that_fails_is_no_installation(clone, indexes):
    shutil.copy(ROOT / "constraints.txt", clone)
    (clone / "constraints.txt").write_text("torch==1.0\n")
    failed = start(clone, indexes, "list", TORCH_INDEX=f"{indexes}/cpu")
    assert failed.returncode == 1
    assert "did not give torch (above: why): now the ordinary index" in failed.stdout
    assert failed.stderr.splitlines()[-1].startswith("The course is not installed (above: why).")
    assert not (clone / ".venv" / ".lab").exists()


@pytest.fixture
def module(monkeypatch) -> ModuleType:
    """Return start.py as a module that installs nothing."""
    spec = importlib.util.spec_from_file_location("start", ROOT / "start.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("TORCH_INDEX", "PIP_ARGS"):
        monkeypatch.delenv(name, raising=False)
    return module


@pytest.mark.parametrize(
    ("system", "gpus", "answers", "index", "says"),
    [
        ("linux", 0, True, "https://download.pytorch.org/whl/cpu", "No GPU here"),
        ("linux", 0, False, "", "does not answer"),
        ("linux", 1, True, "", "has a GPU: torch comes with CUDA"),
        ("darwin", 0, True, "", "the ordinary build, without CUDA"),
        ("win32", 1, True, "", "the ordinary build, without CUDA"),
    ],
)
def test_each_machine_gets_its_torch(module, monkeypatch, system, gpus, answers, index, says):
    monkeypatch.setattr(module.sys, "platform", system)
    monkeypatch.setattr(_mode, "cuda_devices", lambda: gpus)
    monkeypatch.setattr(module, "answers", lambda asked: answers)
    chosen, said = module.torch_index([])
    assert chosen == index
    assert says in said
    assert "\n" not in said


def test_an_index_that_hangs_is_not_waited_for(module, monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 0.3)
    monkeypatch.setattr(module.urllib.request, "urlopen", lambda *a, **k: time.sleep(60))
    begun = time.monotonic()
    assert not module.answers("http://127.0.0.1/cpu")
    assert time.monotonic() - begun < 5


def test_what_an_index_must_have_is_torch(module, indexes):
    assert module.answers(f"{indexes}/cpu/")
    assert not module.answers(f"{indexes}/nowhere")
    assert not module.answers("no address")


OLD = (
    "import sys; sys.version_info = (3, 9, 18); sys.version = '3.9.18 (main)'; sys.argv = {argv}\n"
)


@pytest.mark.parametrize(
    "code",
    [
        OLD.format(argv="['start.py', 'doctor']")
        + f"import runpy; runpy.run_path({str(ROOT / 'start.py')!r}, run_name='__main__')",
        OLD.format(argv="['start.py', '--install', 'dev']")
        + f"import runpy; runpy.run_path({str(ROOT / 'start.py')!r}, run_name='__main__')",
        OLD.format(argv="['course', 'doctor']") + "import course_lib.cli",
    ],
    ids=["course doctor", "make test", "python -m course_lib.cli doctor"],
)
def test_an_old_python_gets_one_sentence(code):
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("The course needs Python 3.11 or newer, and this is 3.9.18 (")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("file", ["start.py", "course_lib/__init__.py", "course_lib/_mode.py"])
def test_an_old_python_can_read_as_far_as_the_sentence(file):
    text = (ROOT / file).read_text(encoding="utf-8")
    ast.parse(text, feature_version=(3, 9))
    imported = {
        (node.names[0].name if isinstance(node, ast.Import) else node.module).split(".")[0]
        for node in ast.parse(text).body
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert imported <= sys.stdlib_module_names - {"tomllib"} | {"course_lib"}


def test_a_python_that_has_gone_is_named(clone, indexes):
    (clone / ".venv" / "bin" / "python").unlink()
    done = start(clone, indexes, "list")
    assert done.returncode == 1
    assert done.stderr.endswith("has lost its Python: delete that folder and start again.\n")


def test_on_windows_the_terminal_waits_for_the_command(monkeypatch):
    """Simulated: what start.py does where os.name is "nt", with the paths of Windows."""
    text = (ROOT / "start.py").read_text(encoding="utf-8")
    assert text.count('os.name == "nt"') == 2
    windows: dict = {"__name__": "start", "__file__": str(ROOT / "start.py")}
    exec(text.replace('os.name == "nt"', "True"), windows)
    called = []
    monkeypatch.setitem(windows, "install", lambda what: 0)
    monkeypatch.setattr(subprocess, "call", lambda command: called.append(command) or 7)
    assert windows["main"](["check", "my file.py"]) == 7
    python = str(ROOT / ".venv" / "Scripts" / "python.exe")
    assert called == [[python, "-P", "-m", "course_lib.cli", "check", "my file.py"]]


def test_windows_has_a_launcher_of_its_own():
    lines = (ROOT / "course.cmd").read_bytes().decode().split("\r\n")
    assert '(py -3 "%~dp0start.py" %*) else (python "%~dp0start.py" %*)' in lines[-2]
    assert os.access(ROOT / "course", os.X_OK)
