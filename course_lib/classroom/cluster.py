"""The same work on a Dask cluster: one task per submission, one zygote per worker process.

Dask gives a submission to another worker when one dies; records are still written in one place,
by whoever started the run, so each is written once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from course_lib.classroom.job import Job, Unsafe, is_whole, unsafe, workshop
from course_lib.classroom.record import INFRASTRUCTURE, record
from course_lib.handin.submissions import Submission
from course_lib.sandbox import bubblewrap

_one_at_a_time = threading.Lock()  # a worker may have several threads
_workshop: Any = None


class NoCluster(Exception):
    """There is no scheduler at that address, or Dask is not installed."""


def work(
    waiting: Iterable[Submission], job: Job, address: str, allow_unsandboxed: bool
) -> Iterator[tuple[Submission, list[dict[str, Any]]]]:
    """Yield each submission with its records as the workers at ``address`` finish them.

    Raises NoCluster, and Unsafe if a worker's sandbox does not hold.
    """
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise NoCluster("--scheduler needs Dask: pip install -e '.[cluster]'") from None
    try:
        client = Client(address, timeout=20)
    except (OSError, ValueError, TimeoutError):
        raise NoCluster(f"No Dask scheduler answers at {address}.") from None
    with client:
        tasks = {
            client.submit(grade_here, submission, job, allow_unsandboxed, pure=False): submission
            for submission in waiting
        }
        for future in as_completed(list(tasks)):
            submission = tasks.pop(future)  # the result can be freed
            error = future.exception()
            if isinstance(error, Unsafe):
                raise error
            yield submission, _lost(submission, error) if error else future.result()


def grade_here(submission: Submission, job: Job, allow_unsandboxed: bool) -> list[dict[str, Any]]:
    """In a Dask worker: grade one submission with this process's own zygotes."""
    global _workshop
    os.environ.update({"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""})
    from course_lib.classroom.grade_one import grade

    with _one_at_a_time:
        if _workshop is None or _workshop.outer != job.outer:
            if job.outer and (why := bubblewrap.problem()):
                raise Unsafe(f"{why}.")
            _workshop = workshop(outer=job.outer)
        if not is_whole(_workshop.level) and not allow_unsandboxed:
            raise Unsafe(unsafe(_workshop.level))
        return grade(_workshop, submission, job.chosen(), job.secret)


def _lost(submission: Submission, error: BaseException) -> list[dict[str, Any]]:
    why = f"The cluster gave it up: {type(error).__name__}: {error}"
    return [record(submission.student, submission.content, None, INFRASTRUCTURE, why)]
