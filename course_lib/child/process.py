"""Run a task on extracted source in a fresh Python process, in the Triton mode it needs.

A process runs Triton interpreted or compiled, never both. What needs the other mode runs here:
the source becomes a real file in a temporary folder, is imported in a child, and a task (a
function of the course, named by its path) works on the module. Data crosses as the codec makes
them, never as pickles; a student's exception comes back as data.

This is not the sandbox of graded work: the child may do whatever the student may.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from course_lib.child import trusted_codec as codec
from course_lib.child.extract import Extract, extract
from course_lib.child.student_error import Frame, note_copy, root_cause, student_frames

STUDENT_MODULE = "student_code"
_REPOSITORY = str(Path(__file__).resolve().parents[2])
_VIA = f"{__name__}"
_REQUEST, _ANSWER = "request", "answer"


@dataclass(frozen=True)
class ChildFailure:
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
    """What came back: ``value`` is the task's result, None if ``failure`` is set."""

    value: Any
    failure: ChildFailure | None
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
    timeout: float = 60.0,
    cache_dir: str | None = None,
) -> ChildResult:
    """Run ``task`` on ``code`` in a fresh process and return what it returned.

    Args:
        code: a function to extract, an `Extract`, or the source of a file.
        task: "module:function" of the course; called as ``function(module, payload)``, it returns
            something that the codec can carry.
        payload: something that the codec can carry.
        mode: "interpreter" sets TRITON_INTERPRET=1 and hides GPUs; "compile" does neither.
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
        (here / _REQUEST).write_bytes(codec.encode(request))
        ended, stderr = _start(here, _environment(mode, cache_dir), timeout)
        seconds = time.perf_counter() - started
        if ended is None:
            message = f"it ran for more than {timeout:g} seconds and was stopped."
            return ChildResult(None, ChildFailure("timeout", "TimeoutError", message), "", seconds)
        if not (here / _ANSWER).exists():
            return ChildResult(None, _death(ended, stderr), "", seconds)
        return ChildResult(**codec.decode((here / _ANSWER).read_bytes()), seconds=seconds)


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
            [sys.executable, "-P", "-m", _VIA, str(folder)],
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


def _death(status: int, stderr: str) -> ChildFailure:
    how = f"exit status {status}"
    if status < 0:
        how = f"signal {signal.Signals(-status).name}"
    last = (stderr.strip().splitlines() or ["no message"])[-1]
    message = f"the child process ended without an answer ({how}): {last}"
    return ChildFailure("infrastructure", "ChildDied", message, traceback=stderr[-4000:])


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
    request = codec.decode((folder / _REQUEST).read_bytes())
    file = str(folder / f"{STUDENT_MODULE}.py")
    note_copy(file, request["origins"])
    printed, value, failure = StringIO(), None, None
    with redirect_stdout(printed), redirect_stderr(printed):
        try:
            module_name, _, function = request["task"].partition(":")
            task = getattr(importlib.import_module(module_name), function)
            student = call_student(_import_student, file)
            value = task(student, request["payload"])
        except StudentError as error:
            failure = _described(error.__cause__ or error, "student", file)
        except Exception as error:
            failure = _described(error, "infrastructure", file)
    answer = {"value": value, "failure": failure, "printed": printed.getvalue()[-20_000:]}
    unfinished = folder / "unfinished"
    unfinished.write_bytes(codec.encode(answer))
    unfinished.rename(folder / _ANSWER)


def _import_student(file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(STUDENT_MODULE, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[STUDENT_MODULE] = module
    spec.loader.exec_module(module)
    return module


def _described(
    error: BaseException, kind: Literal["student", "infrastructure"], file: str
) -> ChildFailure:
    """Turn an exception into data; what Triton wrapped counts, not its wrappers."""
    text = "".join(traceback.format_exception(error))
    cause, frames = root_cause(error), tuple(student_frames(error, file))
    attributes = {name: value for name, value in vars(cause).items() if _is_plain(value)}
    return ChildFailure(kind, type(cause).__name__, str(cause), frames, text, attributes)


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return isinstance(value, str | int | float | None)


if __name__ == "__main__":
    from course_lib.child import process as child  # so that tasks find the one StudentError

    child._main(Path(sys.argv[1]))
