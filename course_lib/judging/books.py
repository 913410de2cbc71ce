"""Ledgers that crossed a process boundary as plain data, made into ledgers again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from course_lib.child.codec import BadFrame

_MOST_NAMES, _LONGEST_NAME = 64, 100  # of tensors, in a record


def rebuilt(data: Any) -> Any:
    """Return the ledger that the student's side described. Raises BadFrame if it is none.

    What a ledger says that was kept beside the student's code is only as honest as that code:
    kernels are counted elsewhere (`sandbox.interpreter`), for this reason.
    """
    from course_lib.accounting.desk import Desk
    from course_lib.accounting.eager_ledger import EagerLedger
    from course_lib.accounting.memory import FlatMemory

    if data is None or isinstance(data, int | float | str):
        return data
    kinds: dict[str, type[EagerLedger | FlatMemory | Desk]] = {
        "eager": EagerLedger,
        "flat": FlatMemory,
        "desk": Desk,
    }
    try:
        return kinds[data["kind"]].from_plain(data)
    except Exception as error:  # whatever forged books provoke, they are no books
        raise BadFrame(f"these are no books: {type(error).__name__}") from None


def kernel_ledger(books: dict[str, Any], races: list[str]) -> Any:
    """Return the ledger of the device's own books."""
    from course_lib.accounting.kernel_ledger import KernelLedger

    ledger = KernelLedger.from_plain(books)
    ledger.races = [str(race) for race in races]  # type: ignore[attr-defined]
    return ledger


def traffic(ledger: Any) -> dict[str, Any] | None:
    """Return bytes read and written per tensor for the record, None if nothing was counted."""
    if not hasattr(ledger, "read") or not (ledger.read or ledger.written):
        return None
    moved = {"read": ledger.read, "written": ledger.written}
    capped = {way: dict(islice(_named(bytes_of), _MOST_NAMES)) for way, bytes_of in moved.items()}
    return {**capped, "flops": ledger.flops}


def nothing_stored(ledger: Any) -> str:
    """Say how a kernel hands out what it computed if kernels ran and stored nothing, else "".

    Bytes alone are asked: a store that adds, or one of zeros, is a store.
    """
    if not getattr(ledger, "launches", None) or any(ledger.written.values()):
        return ""
    return (
        "a kernel returns nothing: store what it computes, tl.store(out + offsets, ..., mask=...)"
    )


def other_tiles(asked: Mapping[str, Any], ledger: Any, origins: Any = None) -> str:
    """Say so if kernels ran with other tiles than the call's block_q and block_k, else nothing.

    One that is given none of the inputs puts together what others made: its tiles are its own.
    """
    wanted = {name: n for name, n in asked.items() if name.startswith("block")}
    launches = getattr(ledger, "launches", ())
    ran = {
        str(name)[:_LONGEST_NAME]: n
        for launch in (origins.that_hold_inputs(launches) if origins else launches)
        for name, n in launch.constexprs.items()
        if re.search("block|tile", str(name), re.IGNORECASE) and isinstance(n, int)
    }
    if not ran or set(wanted.values()) <= set(ran.values()):
        return ""
    call, yours = (", ".join(f"{k} = {n}" for k, n in x.items()) for x in (wanted, ran))
    return f"The call asks for {call}, and your kernel ran with {yours}: tiles here are the call's."


def _named(bytes_of: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Yield names (a student's, of any length and letters) made plain, with their bytes."""
    for name, n_bytes in bytes_of.items():
        yield "".join(filter(str.isprintable, str(name)[:_LONGEST_NAME])), n_bytes
