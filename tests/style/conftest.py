"""The browser that the widgets' tests use."""

from widgets.conftest import browser

__all__ = ["browser"]
