"""``python -m course_lib.cli``: the ``course`` command without its script."""

import sys

from course_lib.cli import main

if __name__ == "__main__":
    sys.exit(main())
