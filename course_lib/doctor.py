"""``course doctor``: what this machine has, what works here, what does not, and what to do.

``examine`` gathers facts without importing torch or triton into this process (either may be
missing, broken, or crash); ``diagnose`` turns facts into sentences and is pure.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from course_lib import __version__, _mode
from course_lib.laptop import SUFFIX, interpreter_only
from course_lib.lessons import Lesson, all_lessons, in_words

PACKAGES = ("numpy", "matplotlib", "torch", "triton", "ipywidgets", "jupyterlab")
_CORE = ("numpy", "matplotlib", "torch")  # without these no lesson runs
_LITTLE_MEMORY = 3 * 2**30
_INTERPRETER_ONLY = (
    "kernels run in Python, on the CPU, and are compiled when graded, on Linux or on Colab"
)

Mark = Literal["ok", "note", "problem"]
_SIGNS = {"ok": "✓", "note": "–", "problem": "✗"}


@dataclass(frozen=True)
class Package:
    """An installed package: its version, and why importing it fails (empty if it does not)."""

    version: str
    error: str = ""


@dataclass(frozen=True)
class Gpu:
    """A CUDA device: its name and compute capability."""

    name: str
    capability: tuple[int, int]


@dataclass(frozen=True)
class Facts:
    """What the doctor looks at. ``packages`` lacks what is not installed; memory in bytes."""

    python: tuple[int, int, int]
    system: str  # "Linux", "Darwin" or "Windows", as platform.system() says
    packages: Mapping[str, Package]
    gpus: tuple[Gpu, ...] = ()
    interpret: str | None = None  # TRITON_INTERPRET
    memory: int | None = None
    colab: bool = False

    def version(self, name: str) -> tuple[int, ...]:
        """Return a package's version as numbers, () where it is not installed."""
        package = self.packages.get(name)
        numbers = re.match(r"\d+(?:\.\d+)*", package.version) if package else None
        return tuple(int(n) for n in numbers[0].split(".")) if numbers else ()


@dataclass(frozen=True)
class Line:
    """One finding: a mark, a sentence, and what to do about it."""

    mark: Mark
    says: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{_SIGNS[self.mark]} {self.says}" + (f"\n    → {self.fix}" if self.fix else "")


def diagnose(facts: Facts) -> list[Line]:
    """Return the findings on a machine, most basic first; "problem" stops every lesson."""
    return [
        *_python(facts),
        *_packages(facts),
        *_triton(facts),
        *_gpu(facts),
        *_memory(facts),
        _verdict(facts),
    ]


def can_start(facts: Facts) -> bool:
    """Return whether the lessons that need no Triton run here."""
    if facts.python < (3, 11) or not facts.version("numpy") >= (2,):
        return False
    return all(name in facts.packages and not facts.packages[name].error for name in _CORE)


def triton_obstacle(facts: Facts) -> Line | None:
    """Return why the lessons with Triton do not run here, or None if they do."""
    _, with_triton = _lessons_in_words()
    if facts.system != "Linux" and "triton" not in facts.packages:
        fix = f"For lessons {with_triton}: `course triton` (its interpreter, without a compiler), "
        fix += "or Colab, WSL, a Linux container."
        return Line("note", f"Triton: there is none for {_system(facts)}.", fix)
    if "triton" not in facts.packages:
        fix = "pip install 'triton>=3.4' (with torch 2.13: triton==3.7.1)."
        return Line("note", f"Triton: not installed, so lessons {with_triton} do not run.", fix)
    triton = facts.packages["triton"]
    if facts.version("triton") < (3, 4):
        fix = "Upgrade torch to 2.8 or newer, which brings a triton that fits."
        return Line("note", f"Triton {triton.version} is older than 3.4, the oldest we know.", fix)
    if triton.error:
        fix = "Install it anew, in the version that your torch asks for."
        return Line("note", f"Triton {triton.version} cannot be imported: {triton.error}", fix)
    old = facts.version("triton") < (3, 7)
    if old and facts.version("numpy") >= (2, 4) and _interpreted(facts):
        says = (
            f"Triton {triton.version} with NumPy {facts.packages['numpy'].version}: "
            "the interpreter fails with 'only 0-dimensional arrays can be converted'."
        )
        return Line("note", says, "pip install 'numpy<2.4', or triton 3.7 with its torch.")
    return None


def examine() -> Facts:
    """Return the facts of this machine. Imports run in children, so nothing can crash here."""
    return Facts(
        python=sys.version_info[:3],
        system=platform.system(),
        packages=_probe_all(),
        gpus=gpus(),
        interpret=os.environ.get(_mode.VARIABLE),
        memory=memory(),
        colab=on_colab(),
    )


def headline() -> str:
    """Return one line for a notebook: the course's version and how Triton kernels run here."""
    return f"FlashAttention course {__version__}. {_mode_in_words()}."


def gpus() -> tuple[Gpu, ...]:
    """Return the CUDA devices that the driver reports, without torch."""
    if _mode.cuda_devices() == 0:
        return ()
    cuda = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    return tuple(_gpu_at(cuda, index) for index in range(_mode.cuda_devices()))


def memory() -> int | None:
    """Return the bytes of memory this process may use (its container's limit counts), or None."""
    found = []
    with contextlib.suppress(AttributeError, ValueError, OSError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with contextlib.suppress(OSError, ValueError), open("/sys/fs/cgroup/memory.max") as limit:
        found.append(int(limit.read()))
    return min(found, default=None)


def on_colab() -> bool:
    """Return whether this machine is a Colab runtime (in a notebook or in its terminal)."""
    return "google.colab" in sys.modules or "COLAB_RELEASE_TAG" in os.environ


def _python(facts: Facts) -> Iterator[Line]:
    version = ".".join(map(str, facts.python))
    where = "Colab" if facts.colab else _system(facts)
    if facts.python >= (3, 11):
        yield Line("ok", f"Python {version} on {where}.")
    else:
        fix = "Install Python 3.11 or newer, then: PYTHON=python3.12 ./course lab"
        yield Line("problem", f"Python {version} is too old: the course needs 3.11.", fix)


def _packages(facts: Facts) -> Iterator[Line]:
    for name in PACKAGES:
        if name != "triton":
            yield _package(facts, name)


def _package(facts: Facts, name: str) -> Line:
    mark: Mark = "problem" if name in _CORE else "note"
    package = facts.packages.get(name)
    if package is None and facts.colab and name == "jupyterlab":
        return Line("ok", "Notebooks: Colab's own.")
    if package is None:
        what = "the sliders stay still" if name == "ipywidgets" else "lessons do not run"
        return Line(mark, f"{name} is not installed: {what} without it.", _install(facts, name))
    if package.error:
        fix = _install(facts, f"--force-reinstall {name}")
        return Line(mark, f"{name} {package.version} cannot be imported: {package.error}", fix)
    if name == "numpy" and facts.version(name) < (2,):
        says = f"NumPy {package.version} is too old: the course needs NumPy 2."
        return Line("problem", says, _install(facts, "'numpy>=2'"))
    if name == "torch" and facts.version(name) < (2, 8):
        says = f"torch {package.version} is older than 2.8: no triton that we know fits it."
        return Line("note", says, "Upgrade torch to 2.8 or newer.")
    return Line("ok", f"{name} {package.version}.")


def _triton(facts: Facts) -> Iterator[Line]:
    obstacle = triton_obstacle(facts)
    if obstacle:
        yield obstacle
        return
    version = facts.packages["triton"].version
    if _without_compiler(facts):
        yield Line("ok", f"Triton {version}, interpreter only: {_INTERPRETER_ONLY}.")
    elif _interpreted(facts):
        yield Line("ok", f"Triton {version}, interpreted: kernels run in Python, on the CPU.")
    else:
        yield Line("ok", f"Triton {version}, compiling for {facts.gpus[0].name}.")
    if _interpreted(facts):
        yield Line("note", "bf16 is silently wrong in the interpreter: we refuse it; use fp16.")


def _gpu(facts: Facts) -> Iterator[Line]:
    if not facts.gpus:
        yield Line("ok", "No CUDA GPU here: none is needed.")
        return
    for gpu in facts.gpus:
        yield Line("ok", f"GPU: {gpu.name} (sm_{gpu.capability[0]}{gpu.capability[1]}).")
    if _asked(facts) and not _without_compiler(facts):
        says = (
            f"TRITON_INTERPRET={facts.interpret} is set: kernels are interpreted despite the GPU."
        )
        yield Line("note", says, "unset TRITON_INTERPRET and restart, to compile for the GPU.")
    if any(gpu.capability < (8, 0) for gpu in facts.gpus):
        says = "Below sm_80 Triton has no bf16 and emits no tensor-core instructions: results hold."
        yield Line("note", says, "Judge correctness here, not speed; 32x32 tiles suit a T4.")


def _memory(facts: Facts) -> Iterator[Line]:
    if facts.memory is None:
        return
    amount = f"{facts.memory / 2**30:.1f} GiB"
    if facts.memory < _LITTLE_MEMORY:
        yield Line("note", f"Memory: {amount} is little.", "Close other programs and kernels.")
    else:
        yield Line("ok", f"Memory: {amount}.")


def _verdict(facts: Facts) -> Line:
    without, with_triton = _lessons_in_words()
    if not can_start(facts):
        return Line("problem", f"Lessons {without} do not run yet: mend what is marked ✗ above.")
    if triton_obstacle(facts):
        return Line("ok", f"Lessons {without} run here; {with_triton} need a Triton that works.")
    return Line("ok", "All lessons run here.")


def _lessons_in_words() -> tuple[str, str]:
    """Return the numbers of the lessons without Triton, and of those that need it."""
    groups: tuple[list[Lesson], list[Lesson]] = [], []
    for lesson in all_lessons():
        groups["triton" in lesson.needs].append(lesson)
    return in_words(groups[0]), in_words(groups[1])


def _system(facts: Facts) -> str:
    return {"Darwin": "macOS"}.get(facts.system, facts.system)


def _asked(facts: Facts) -> bool:
    return (facts.interpret or "").lower() in {"1", "true", "yes", "on", "y"}


def _interpreted(facts: Facts) -> bool:
    return _asked(facts) or not facts.gpus or _without_compiler(facts)


def _without_compiler(facts: Facts) -> bool:
    return facts.packages.get("triton", Package("")).version.endswith(SUFFIX)


def _install(facts: Facts, what: str) -> str:
    return f"pip install {what}" + ("" if facts.colab else ", or simply: ./course lab")


def _mode_in_words() -> str:
    found = _mode.mode()
    if found == "none":
        return "Triton is not available here"
    if found == "interpreter" and interpreter_only():
        return f"Triton, interpreter only: {_INTERPRETER_ONLY}"
    if found == "interpreter":
        return "Triton kernels run in the interpreter, on the CPU"
    return "Triton kernels run on the GPU: " + ", ".join(gpu.name for gpu in gpus())


def _gpu_at(cuda: ctypes.CDLL, index: int) -> Gpu:
    device, name = ctypes.c_int(), ctypes.create_string_buffer(256)
    major, minor = ctypes.c_int(), ctypes.c_int()
    cuda.cuDeviceGet(ctypes.byref(device), index)
    cuda.cuDeviceGetName(name, len(name), device)
    cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, device)  # COMPUTE_CAPABILITY_MAJOR
    cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)  # COMPUTE_CAPABILITY_MINOR
    return Gpu(name.value.decode(errors="replace"), (major.value, minor.value))


def _probe_all() -> dict[str, Package]:
    installed = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    with ThreadPoolExecutor() as pool:  # each import waits in a child of its own
        errors = pool.map(_import_error, installed)
    found = zip(installed.items(), errors, strict=True)
    return {name: Package(version, error) for (name, version), error in found}


def _import_error(name: str) -> str:
    """Import ``name`` in a child; return why that fails, in one line, or ""."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", f"import {name}"],
            capture_output=True,
            text=True,
            timeout=120,
        )
    except subprocess.TimeoutExpired:
        return "the import did not end within two minutes"
    if done.returncode == 0:
        return ""
    last = done.stderr.strip().splitlines()[-1:] or [f"the import ended with {done.returncode}"]
    return last[0]
