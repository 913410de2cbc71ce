"""A function in another process, for those who ``play`` with it: each call is a question asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib.judging.spec import Subject


class Asked:
    """A student's function, called by ``ask(args, kwargs)``. No exercise plays with a class yet."""

    def __init__(self, ask: Callable[[tuple[Any, ...], dict[str, Any]], Any]) -> None:
        self._ask = ask

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Ask for what it returns."""
        return self._ask(args, kwargs)

    def make(self, *args: Any, **kwargs: Any) -> Subject:
        """Refuse: nothing is kept in the other process."""
        raise NotImplementedError

    def method(self, name: str) -> Subject:
        """Refuse: there is no object."""
        raise NotImplementedError

    def together(self, *calls: tuple[Any, ...]) -> list[Any]:
        """Refuse: the other process answers one question after the other."""
        raise NotImplementedError
