"""Ledgers that crossed a process boundary as plain data, made into ledgers again."""

from __future__ import annotations

from typing import Any

from course_lib.child.codec import BadFrame


def rebuilt(data: Any) -> Any:
    """Return the ledger that the student's side described. Raises BadFrame if it is none.

    What a ledger says that was kept beside the student's code is only as honest as that code:
    kernels are counted elsewhere (`sandbox.interpreter`), for this reason.
    """
    if data is None or isinstance(data, int | float | str):
        return data
    try:
        ledger = _eager(data) if data["kind"] == "eager" else _flat(data)
        for name, count in data["read"].items():
            ledger.read[str(name)] = int(count)
        for name, count in data["written"].items():
            ledger.written[str(name)] = int(count)
        ledger.flops = int(data["flops"])
        return ledger
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadFrame(f"these are no books: {error}") from None


def kernel_ledger(books: dict[str, Any], races: list[str]) -> Any:
    """Return the ledger of the device's own books."""
    from course_lib.accounting.kernel_ledger import KernelLedger

    ledger = KernelLedger.from_json(books)
    ledger.races = [str(race) for race in races]  # type: ignore[attr-defined]
    return ledger


def traffic(ledger: Any) -> dict[str, Any] | None:
    """Return bytes read and written per tensor for the record, None if nothing was counted."""
    if not hasattr(ledger, "read"):
        return None
    return {"read": dict(ledger.read), "written": dict(ledger.written), "flops": ledger.flops}


def _eager(data: dict[str, Any]) -> Any:
    from course_lib.accounting.eager_ledger import Crossing, EagerLedger

    ledger = EagerLedger()
    ledger.crossings = [
        Crossing(str(op), str(tensor), str(way), int(n)) for op, tensor, way, n in data["crossings"]
    ]
    ledger.peak_bytes = int(data["peak"])
    return ledger


def _flat(data: dict[str, Any]) -> Any:
    from course_lib.accounting.memory import FlatMemory

    memory = FlatMemory(int(data["itemsize"]))
    for name, array in data["arrays"].items():
        memory.place(str(name), array)
    return memory
