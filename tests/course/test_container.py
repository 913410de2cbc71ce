"""The Dockerfile serves dev containers, Binder and a cluster; its steps work (without Docker)."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from conftest import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_it_is_what_binder_asks_for():
    """A pinned image, a user who is an argument, jupyterlab on the PATH, and no ENTRYPOINT."""
    assert re.search(r"^FROM python:3\.\d\d-slim$", DOCKERFILE, re.MULTILINE)
    assert re.search(r"^ARG NB_USER", DOCKERFILE, re.MULTILINE)
    assert re.search(r"^ARG NB_UID", DOCKERFILE, re.MULTILINE)
    assert "USER ${NB_USER}" in DOCKERFILE
    assert "ENTRYPOINT" not in DOCKERFILE
    assert "ENV PATH=${HOME}/course/.venv/bin:${PATH}" in DOCKERFILE


def test_the_dev_container_builds_the_same_image():
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    place = (ROOT / ".devcontainer" / container["build"]["dockerfile"]).resolve()
    assert place == ROOT / "Dockerfile"
    settings = container["customizations"]["vscode"]["settings"]
    user = re.search(r"^ARG NB_USER=(\w+)$", DOCKERFILE, re.MULTILINE)[1]
    python = f"/home/{user}/course/.venv/bin/python"
    assert settings["python.defaultInterpreterPath"] == python


def test_the_clusters_page_names_it():
    page = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    assert "docker build -t registry/course:1 ." in page
    assert "FROM python" not in page, "a second Dockerfile drifts from the first"


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_its_steps_lead_to_a_course_that_runs(tmp_path):
    script = """
import subprocess, shutil, sys
for name in ("jupyter", "course", "dask"):
    assert shutil.which(name), name
assert "/.venv/" in sys.executable, sys.executable
subprocess.run(["dask", "worker", "--help"], check=True, stdout=subprocess.DEVNULL)
subprocess.run(["course", "doctor"], check=True)
subprocess.run(["course", "check", "solutions/00_start_here.ipynb"], check=True)
"""
    replay = [sys.executable, str(ROOT / ".ci" / "replay_dockerfile.py"), str(tmp_path / "root")]
    done = subprocess.run([*replay, "python", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "All lessons run here" in done.stdout
    assert done.stdout.count(": passed") == 1
