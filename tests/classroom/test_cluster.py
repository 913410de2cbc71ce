"""Grading on a Dask cluster: a worker killed in the middle costs no submission its grade."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time

import pytest

from course_lib.classroom.batch import grade_class
from course_lib.classroom.cluster import NoCluster
from course_lib.classroom.job import Job
from course_lib.classroom.record import Records
from course_lib.handin.submissions import Submission

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="the extra [cluster] is not installed"
)
ECHO = b"def echo(x):\n    return x.copy()\n"


@pytest.fixture
def cluster(tmp_path):
    """Start a scheduler and two workers as processes; give the address and the workers."""
    file = tmp_path / "scheduler.json"
    common = ["--scheduler-file", str(file)]
    started = [
        _start("scheduler", *common, "--host", "127.0.0.1", "--port", "0", "--no-dashboard"),
        *(
            _start("worker", *common, "--no-nanny", "--nthreads", "1", "--no-dashboard")
            for _ in range(2)
        ),
    ]
    try:
        until = time.monotonic() + 60
        while not file.exists() and time.monotonic() < until:
            time.sleep(0.1)
        yield json.loads(file.read_text())["address"], started[1:]
    finally:
        for process in started:
            process.kill()
            process.wait()


def _start(what: str, *arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_" + what, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.sweep  # a scheduler and two workers, ten seconds of processor time
def test_a_killed_worker_loses_nothing(cluster, tmp_path):
    address, workers = cluster
    files = [Submission(f"student {i}", (("e.py", ECHO + b"# %d" % i),)) for i in range(12)]
    records, seen = Records(tmp_path / "records.jsonl"), []

    def kill_one(submission):
        seen.append(submission.student)
        if len(seen) == 3:
            workers[0].kill()

    job = Job(b"a secret", ("0.1",))
    tally = grade_class(files, records, job, scheduler=address, progress=kill_one)
    lines = [json.loads(line) for line in records.path.read_text().splitlines()]
    assert tally.graded == 12
    assert sorted(line["student"] for line in lines) == sorted(f.student for f in files)
    assert {line["outcome"] for line in lines} == {"passed"}


def test_no_scheduler_is_said_in_a_sentence(tmp_path, monkeypatch):
    records = Records(tmp_path / "records.jsonl")
    submission = Submission("a", (("a.py", ECHO),))
    with pytest.raises(NoCluster, match="No Dask scheduler answers"):
        grade_class([submission], records, Job(b"a secret"), scheduler="not an address")
