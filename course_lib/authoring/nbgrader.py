"""nbgrader's cell metadata, schema 3, without nbgrader (which would add panels to JupyterLab).

Format and checksum: nbgrader 0.9, ``nbgraderformat/v3.json`` and ``utils.compute_checksum``.
``make test-nbgrader`` holds both against the real one.
"""

from __future__ import annotations

import hashlib
from typing import Any


def solution_metadata(slug: str) -> dict[str, Any]:
    """Return the metadata of the cell in which the student writes."""
    return _metadata(slug, solution=True)


def check_metadata(slug: str, source: str, points: int) -> dict[str, Any]:
    """Return the metadata of a check cell: graded, locked, and sealed by its checksum."""
    checksum = check_checksum(slug, source, points)
    return _metadata(slug, grade=True, locked=True, points=points, checksum=checksum)


def check_checksum(slug: str, source: str, points: int) -> str:
    """Return nbgrader's MD5 over text, type, flags (grade, solution, locked), id and points."""
    parts = [source, "code", "True", "False", "True", slug, str(float(points))]
    return hashlib.md5("".join(parts).encode(), usedforsecurity=False).hexdigest()


def _metadata(
    slug: str, *, grade: bool = False, solution: bool = False, locked: bool = False, **more: Any
) -> dict[str, Any]:
    flags = {"grade": grade, "locked": locked, "solution": solution, "task": False}
    return {"schema_version": 3, "grade_id": slug, "cell_type": "code", **flags, **more}
