"""Do what the Dockerfile says without Docker: its steps in order, below a folder of their own.

    python .ci/replay_dockerfile.py FOLDER [COMMAND ...]

ARG, ENV, WORKDIR, COPY and RUN are followed with an environment that holds nothing else but what
says how pip reaches its index; absolute paths are taken below FOLDER. FROM is this Python, under
the name `python`. What needs root (apt-get, useradd, chown) is printed and left out: this Python's
system has it. COMMAND runs at the end, or what CMD says.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEEDS_ROOT = ("apt-get", "useradd", "chown")
OF_PIP = ("PIP_", "SSL_", "HTTP", "http", "no_proxy", "NO_PROXY")


def steps(text: str) -> Iterator[tuple[str, str]]:
    """Yield instruction and rest of each step; comments are left out, broken lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            instruction, _, rest = line.strip().partition(" ")
            yield instruction, " ".join(rest.split())


def filled(text: str, variables: dict[str, str]) -> str:
    """Return ``text`` with its ${NAME}s; KeyError for a name that nothing has set."""
    return re.sub(r"\$\{(\w+)\}", lambda found: variables[found[1]], text)


def ignored(_folder: str, names: list[str]) -> set[str]:
    """Return what .dockerignore keeps out; its patterns are names here."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    patterns = [line.removeprefix("**/") for line in lines]
    return {name for name in names if any(Path(name).match(pattern) for pattern in patterns)}


def replay(folder: Path, command: list[str]) -> int:
    """Follow every step; return the status of the first that fails, or of the command."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    here, default = folder, command
    variables = {"PATH": f"{folder / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin"}
    kept = {name: value for name, value in os.environ.items() if name.startswith(OF_PIP)}
    for instruction, rest in steps((ROOT / "Dockerfile").read_text(encoding="utf-8")):
        if instruction in ("ARG", "ENV"):
            for name, value in re.findall(r"(\w+)=(\S+)", rest):
                variables[name] = below(folder, filled(value, variables))
        elif instruction == "WORKDIR":
            here = Path(filled(rest, variables))
            here.mkdir(parents=True)
        elif instruction == "COPY":
            assert rest.split()[-2:] == [".", "."], f"only the whole folder is copied: {rest}"
            shutil.copytree(ROOT, here, ignore=ignored, dirs_exist_ok=True)
        elif instruction == "RUN" and rest.split()[0] in NEEDS_ROOT:
            print(f"left out: RUN {rest}", flush=True)
        elif instruction == "RUN":
            print(f"RUN {rest}", flush=True)
            if status := subprocess.call(["sh", "-c", rest], cwd=here, env=kept | variables):
                return status
        elif instruction == "CMD":
            default = command or json.loads(rest)
        elif instruction not in ("FROM", "USER", "EXPOSE"):
            raise SystemExit(f"the Dockerfile says {instruction}, and nothing here follows that")
    program = shutil.which(default[0], path=variables["PATH"])
    return subprocess.call([program or default[0], *default[1:]], cwd=here, env=kept | variables)


def below(folder: Path, value: str) -> str:
    """Return a value with each absolute path in it below ``folder``, unless it is there already."""
    parts = value.split(os.pathsep)
    return os.pathsep.join(
        part if part.startswith(str(folder)) or not part.startswith("/home") else f"{folder}{part}"
        for part in parts
    )


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: replay_dockerfile.py FOLDER [COMMAND ...]")
    sys.exit(replay(Path(sys.argv[1]).resolve(), sys.argv[2:]))
