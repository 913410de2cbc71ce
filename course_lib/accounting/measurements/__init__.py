"""What real GPUs did: one JSON file per measurement, with device, source and what is not known.

Each record says what was measured (``what``, ``fields``), where (``device``, ``dtype``, shapes in
``rows``) and how (``source``, ``versions``, ``date``, ``command``; null where nobody wrote it
down). The course's benchmark scripts write new records; a record without a command is to be
measured again by them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent


def load_measurements(name: str) -> dict[str, Any]:
    """Return the record called ``name``: what was measured, on what, and its ``rows``.

    Raises:
        ValueError: if there is no such record; the message lists those there are.
    """
    known = sorted(file.stem for file in _FOLDER.glob("*.json"))
    if name not in known:
        raise ValueError(f"name must be one of {', '.join(known)}; got {name!r}.")
    return json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
