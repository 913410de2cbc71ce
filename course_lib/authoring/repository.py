"""Where the course lives: the repository's address is set here and nowhere else.

Links to Colab and the first cell name a released version, so that a term's notebooks do not change
under a class.
"""

from __future__ import annotations

from course_lib import __version__

REPOSITORY = "https://github.com/flashattention-course/flashattention-course"
RELEASE = f"v{__version__}"

_GITHUB = "https://github.com/"


def git_address() -> str:
    """Return what pip installs on Colab."""
    return f"git+{REPOSITORY}@{RELEASE}"


def colab_link(path: str) -> str:
    """Return the Markdown link that opens ``path`` (``notebooks/03_….ipynb``) on Colab.

    Words, not Colab's picture of a button: that one is fetched, and is a broken image offline.
    """
    return f"[Open in Colab]({colab_page(path)})"


def colab_page(path: str) -> str:
    """Return the address at which Colab opens ``path``."""
    owner_and_name = REPOSITORY.removeprefix(_GITHUB)
    return f"https://colab.research.google.com/github/{owner_and_name}/blob/{RELEASE}/{path}"
