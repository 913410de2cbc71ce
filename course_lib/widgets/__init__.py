"""What you see: instruments that answer within a frame, with or without a kernel.

Names are imported when they are first asked for, so this package costs nothing until then.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "HBMAccountant": "accountant",
    "KVCacheCalculator": "kv_cache",
    "PageTable": "page_table",
    "Predict": "predict",
    "Quiz": "quiz",
    "Race": "race",
    "RooflineChart": "roofline",
    "ServerMemory": "server_memory",
    "SramBudget": "sram_budget",
    "TileSchedule": "tile_schedule",
    "TileStepper": "tile_stepper",
}

__all__ = [
    "HBMAccountant",
    "KVCacheCalculator",
    "PageTable",
    "Predict",
    "Quiz",
    "Race",
    "RooflineChart",
    "ServerMemory",
    "SramBudget",
    "TileSchedule",
    "TileStepper",
]


def __getattr__(name: str) -> Any:
    """Import a widget when it is first asked for."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
