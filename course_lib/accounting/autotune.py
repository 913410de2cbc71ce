"""``triton.autotune`` where no time can be measured: the first configuration is taken.

Tuning runs every configuration on a GPU and keeps the fastest. Interpreted, compiled without a GPU,
or in the sandbox there is nothing to time, and Triton itself ends in "0 active drivers".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def first_config(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``Autotuner.run`` such that it sees one configuration, which is not benchmarked."""

    def run_first(tuner: Any, /, *args: Any, **kwargs: Any) -> Any:
        configs = tuner.configs
        tuner.configs = configs[:1]
        try:
            return run(tuner, *args, **kwargs)
        finally:
            tuner.configs = configs

    return run_first
