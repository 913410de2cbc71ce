"""pyproject.toml, constraints.txt, environment.yml and the Makefile tell one story."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from conftest import ROOT
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from course_lib.cli import jupyter

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
DIRECT = [
    Requirement(line) for line in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]
]


def constraints() -> dict[str, str]:
    """Return package → the one version that constraints.txt allows."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    assert all(len(pin) == 2 for pin in pins), "constraints.txt holds exact pins only"
    return {canonicalize_name(name): version for name, version in pins}


@pytest.mark.parametrize("requirement", DIRECT, ids=lambda r: r.name)
def test_each_direct_dependency_is_pinned_inside_its_bounds(requirement):
    version = constraints()[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(version)


def test_uv_installs_the_same_versions_and_the_same_torch():
    uv = PYPROJECT["tool"]["uv"]
    assert dict(pin.split("==") for pin in uv["constraint-dependencies"]) == dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    )
    (index,) = uv["index"]
    assert index["explicit"] is True  # it gives torch and nothing else
    assert f'CPU_INDEX = "{index["url"]}"' in (ROOT / "start.py").read_text(encoding="utf-8")
    assert uv["sources"] == {"torch": {"index": index["name"], "marker": "sys_platform == 'linux'"}}


def test_the_pair_of_torch_and_triton():
    assert (constraints()["torch"], constraints()["triton"]) == ("2.13.0", "3.7.1")


def test_students_need_no_test_tools():
    plain = {Requirement(line).name for line in PROJECT["dependencies"]}
    assert not plain & {"playwright", "pytest", "ruff", "jupytext", "nbgrader"}


def test_only_lower_bounds_so_that_colab_keeps_its_versions():
    colab = {"torch": "2.11.0", "numpy": "2.1.3", "ipywidgets": "7.7.1", "anywidget": "0.9.21"}
    colab |= {"ipykernel": "6.17.1", "matplotlib": "3.10.0", "triton": "3.6.0"}
    colab |= {"threadpoolctl": "3.6.0"}
    for requirement in (Requirement(line) for line in PROJECT["dependencies"]):
        assert {s.operator for s in requirement.specifier} == {">="}, requirement
        if requirement.name in colab:
            assert requirement.specifier.contains(colab[requirement.name]), requirement


def test_triton_is_asked_for_on_linux_only():
    (triton,) = (r for r in DIRECT if r.name == "triton")
    assert triton.marker is not None
    assert triton.marker.evaluate({"sys_platform": "linux"})
    assert not triton.marker.evaluate({"sys_platform": "darwin"})
    assert not triton.marker.evaluate({"sys_platform": "win32"})


def test_conda_installs_the_same_project_under_the_same_constraints():
    """environment.yml names no version of its own that could drift: it defers to the others."""
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    assert environment["name"] == PROJECT["name"]
    pip = next(entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    assert pip == ["-c constraints.txt", "-e ."]
    plain = [Requirement(e) for e in environment["dependencies"] if isinstance(e, str)]
    assert {r.name for r in plain} == {"python", "pip"}
    python = next(r.specifier for r in plain if r.name == "python")
    supported = SpecifierSet(PROJECT["requires-python"])
    allowed = [f"3.{minor}" for minor in range(8, 16) if python.contains(f"3.{minor}")]
    assert allowed
    assert all(supported.contains(version) for version in allowed)


def dry_run(*arguments: str, cwd: Path = ROOT) -> str:
    """Return what make would run."""
    done = subprocess.run(
        ["make", "-n", *arguments], cwd=cwd, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.fixture
def fresh(tmp_path) -> Path:
    """Return a clone without .venv: the files that the installation looks at."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "start.py"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    return tmp_path


def test_lab_on_a_fresh_machine_installs_then_opens_the_course(fresh):
    commands = dry_run("lab", "ARGS=--no-browser --port 8899", cwd=fresh)
    installed = commands.index("python3 start.py --install lab\n")
    opened = commands.index(".venv/bin/python -m course_lib.cli lab --no-browser --port 8899\n")
    assert installed < opened


def stamp(folder: Path, *names: str) -> None:
    (folder / ".venv").mkdir(exist_ok=True)
    for name in names:
        (folder / ".venv" / name).touch()


@pytest.mark.parametrize("target", ["lab", "test"])
def test_second_call_installs_nothing(fresh, target):
    stamp(fresh, ".made", ".lab", ".dev")
    assert "--install" not in dry_run(target, cwd=fresh)


def test_changed_constraints_install_again(fresh):
    stamp(fresh, ".made", ".lab", ".dev")
    later = (fresh / ".venv" / ".dev").stat().st_mtime + 5
    os.utime(fresh / "constraints.txt", (later, later))
    assert "--install lab" in dry_run("lab", cwd=fresh)


def test_a_kernel_that_the_user_registered_does_not_replace_ours(tmp_path, monkeypatch):
    """The kernel python3 is that of this environment, even with another one under that name."""
    foreign = tmp_path / "jupyter" / "kernels" / "python3"
    foreign.mkdir(parents=True)
    spec = {"argv": ["/usr/bin/false"], "display_name": "foreign", "language": "python"}
    (foreign / "kernel.json").write_text(json.dumps(spec))
    for name, value in {
        "JUPYTER_DATA_DIR": str(tmp_path / "jupyter"),
        "JUPYTER_PREFER_ENV_PATH": "0",
        "JUPYTER_PATH": str(tmp_path / "jupyter"),
    }.items():
        monkeypatch.setenv(name, value)
    code = (
        "from jupyter_client.kernelspec import KernelSpecManager as K; "
        "print(K().get_kernel_spec('python3').display_name)"
    )
    python = [sys.executable, "-c", code]
    unguarded = subprocess.check_output(python, text=True)
    guarded = subprocess.check_output(python, env=jupyter.own_kernel(), text=True)
    assert unguarded.strip() == "foreign"
    assert guarded.strip() != "foreign"
