"""Records for the gradebooks of others, a file for each; this table says which there are.

All text was made plain when the record was made. Cells that a spreadsheet would take for a formula
get an apostrophe (`spreadsheet`); XML and JSON are written by libraries that escape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from course_lib.classroom.gradebooks import canvas, gradescope, junit, moodle, plain_csv
from course_lib.classroom.record import Class

FORMATS: Mapping[str, Callable[[Class, Path], Path]] = {
    "gradescope": gradescope.write,
    "canvas": canvas.write,
    "moodle": moodle.write,
    "junit": junit.write,
    "csv": plain_csv.write,
}
"""Name -> ``write(records, folder)``, which returns the file or folder that it wrote."""
