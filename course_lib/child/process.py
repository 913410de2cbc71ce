"""Run a task on extracted source in a fresh Python process, in the Triton mode it needs.

A process runs Triton interpreted or compiled, never both. What needs the other mode runs here:
the source becomes a real file in a temporary folder, is imported in a child, and a task (a
function of the course, named by its path) works on the module. Data crosses as JSON and raw
bytes, never as pickles; a student's exception comes back as data.

This is not the sandbox of graded work: the child may do whatever the student may.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, Literal

from course_lib.child.extract import Extract, extract

STUDENT_MODULE = "student_code"
_REPOSITORY = str(Path(__file__).resolve().parents[2])
_VIA = f"{__name__}"


@dataclass(frozen=True)
class Frame:
    """One line of the student's own code in a traceback: where it is and what it says.

    ``file`` and ``line`` are those of the cell or file the function was defined in.
    """

    file: str
    line: int
    function: str
    text: str


@dataclass(frozen=True)
class Failure:
    """Why a child has no result.

    ``kind`` is "student" (their code raised), "timeout", or "infrastructure" (the child died or
    the task itself failed: not the student's doing).
    """

    kind: Literal["student", "timeout", "infrastructure"]
    type: str
    message: str
    frames: tuple[Frame, ...] = ()
    traceback: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ChildResult:
    """What came back: ``value`` is the task's (JSON) result, None if ``failure`` is set."""

    value: Any
    failure: Failure | None
    printed: str
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether the task finished."""
        return self.failure is None


def run(
    code: Any,
    task: str,
    payload: Any = None,
    *,
    mode: Literal["interpreter", "compile"],
    blobs: dict[str, bytes] | None = None,
    timeout: float = 60.0,
    cache_dir: str | None = None,
) -> ChildResult:
    """Run ``task`` on ``code`` in a fresh process and return what it returned.

    Args:
        code: a function to extract, an `Extract`, or the source of a file.
        task: "module:function" of the course; called as ``function(module, payload, blobs)``,
            it returns something that JSON can carry.
        payload: something that JSON can carry.
        mode: "interpreter" sets TRITON_INTERPRET=1 and hides GPUs; "compile" does neither.
        blobs: raw bytes by name.
        timeout: seconds, after which the child and all its children are killed.
        cache_dir: TRITON_CACHE_DIR for the child. None means the user's own cache, which makes
            a kernel compiled before come back in no time; graded work passes a fresh folder.

    Raises:
        NotExtractable: if ``code`` is a function that cannot be carried over.
    """
    piece = code if isinstance(code, str | Extract) else extract(code)
    source = piece if isinstance(piece, str) else piece.source
    origins = {} if isinstance(piece, str) else piece.origins
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="course-", ignore_cleanup_errors=True) as folder:
        here = Path(folder)
        (here / f"{STUDENT_MODULE}.py").write_text(source, encoding="utf-8")
        request = {"task": task, "payload": payload, "origins": origins}
        (here / "request.json").write_text(json.dumps(request), encoding="utf-8")
        for name, blob in (blobs or {}).items():
            (here / f"{name}.bin").write_bytes(blob)
        ended, stderr = _start(here, _environment(mode, cache_dir), timeout)
        seconds = time.perf_counter() - started
        if ended is None:
            message = f"it ran for more than {timeout:g} seconds and was stopped."
            return ChildResult(None, Failure("timeout", "TimeoutError", message), "", seconds)
        answer = here / "answer.json"
        if not answer.exists():
            return ChildResult(None, _death(ended, stderr), "", seconds)
        data = json.loads(answer.read_text(encoding="utf-8"))
    failure = data["failure"]
    if failure is not None:
        frames = tuple(Frame(**frame) for frame in failure.pop("frames"))
        failure = Failure(**failure, frames=frames)
    return ChildResult(data["value"], failure, data["printed"], seconds)


def _environment(mode: str, cache_dir: str | None) -> dict[str, str]:
    environment = dict(os.environ)
    environment["OMP_NUM_THREADS"] = "1"
    environment["TRITON_INTERPRET"] = "1" if mode == "interpreter" else "0"
    if mode == "interpreter":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    if cache_dir is not None:
        environment["TRITON_CACHE_DIR"] = cache_dir
    paths = [_REPOSITORY, environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return environment


def _start(folder: Path, environment: dict[str, str], timeout: float) -> tuple[int | None, str]:
    """Start the child and wait; return (exit status, stderr), status None if time ran out."""
    with open(folder / "stderr.txt", "w+", encoding="utf-8", errors="replace") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", _VIA, str(folder)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            ended = process.wait(timeout)
        except subprocess.TimeoutExpired:
            ended = None
        finally:
            _kill_group(process)
        stderr.seek(0)
        return ended, stderr.read()


def _kill_group(process: subprocess.Popen) -> None:
    """End the child and whatever it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    except AttributeError:  # Windows
        process.kill()
    process.wait()


def _death(status: int, stderr: str) -> Failure:
    how = f"exit status {status}"
    if status < 0:
        how = f"signal {signal.Signals(-status).name}"
    last = (stderr.strip().splitlines() or ["no message"])[-1]
    message = f"the child process ended without an answer ({how}): {last}"
    return Failure("infrastructure", "ChildDied", message, traceback=stderr[-4000:])


# In the child ----------------------------------------------------------------------------------


class StudentError(Exception):
    """Carries an exception of the student's code through a task, as ``__cause__``."""


def call_student(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a student's function inside a task, so that what it raises is known as theirs."""
    try:
        return function(*args, **kwargs)
    except (Exception, SystemExit) as error:
        raise StudentError from error


def _main(folder: Path) -> None:
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    blobs = {file.stem: file.read_bytes() for file in folder.glob("*.bin")}
    printed, value, failure = StringIO(), None, None
    with redirect_stdout(printed), redirect_stderr(printed):
        try:
            module_name, _, function = request["task"].partition(":")
            task = getattr(importlib.import_module(module_name), function)
            student = call_student(_import_student, folder)
            value = task(student, request["payload"], blobs)
        except StudentError as error:
            failure = _described(error.__cause__, "student", request["origins"])
        except Exception as error:
            failure = _described(error, "infrastructure", request["origins"])
    answer = {"value": value, "failure": failure, "printed": printed.getvalue()[-20_000:]}
    unfinished = folder / "answer.tmp"
    unfinished.write_text(json.dumps(answer), encoding="utf-8")
    unfinished.rename(folder / "answer.json")


def _import_student(folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location(STUDENT_MODULE, folder / f"{STUDENT_MODULE}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[STUDENT_MODULE] = module
    spec.loader.exec_module(module)
    return module


def _described(error: BaseException, kind: str, origins: dict[str, list]) -> dict[str, Any]:
    """Turn an exception into data; the innermost cause counts, wrappers do not."""
    text = "".join(traceback.format_exception(error))
    frames: list[Frame] = []
    while True:
        frames += _student_frames(error, origins)
        if error.__cause__ is None:
            break
        error = error.__cause__
    attributes = {
        name: value
        for name, value in vars(error).items()
        if isinstance(value, str | int | float | bool | tuple | list | None)
    }
    failure = Failure(kind, type(error).__name__, str(error), tuple(frames), text, attributes)
    return json.loads(json.dumps(asdict(failure), default=repr))


def _student_frames(error: BaseException, origins: dict[str, list]) -> list[Frame]:
    frames = []
    for entry in traceback.extract_tb(error.__traceback__):
        if Path(entry.filename).stem == STUDENT_MODULE:
            file, line = where(entry.filename, entry.lineno or 1, origins)
            frames.append(Frame(file, line, entry.name, entry.line or ""))
    return frames


def where(copy: str, line: int, origins: dict[str, list]) -> tuple[str, int]:
    """Translate a line of the copied file into (file or cell, line) of the original."""
    import ast

    for node in ast.parse(Path(copy).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name in origins:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first <= line <= (node.end_lineno or line):
                file, original = origins[node.name]
                return file, original + line - node.lineno
    return Path(copy).name, line


if __name__ == "__main__":
    from course_lib.child import process as child  # so that tasks find the one StudentError

    child._main(Path(sys.argv[1]))
