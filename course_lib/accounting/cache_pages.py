"""What a KV cache in pages takes, what of it is empty, and what a shared prefix saves.

A page holds ``page_size`` slots; a slot holds K and V of one token, of all layers and key heads.
Pages belong to one sequence each (of a shared prefix, to all who share it), so only the last page
of a sequence has empty slots: fewer than ``page_size``, however long the sequence is.

Sources: Kwon et al. 2023 (arXiv:2309.06180, pages); Zheng et al. 2023 (arXiv:2312.07104, prefixes
in a radix tree); lesson 11.
"""

from __future__ import annotations

from collections.abc import Iterable

from course_lib.accounting.decode_traffic import cache_bytes
from course_lib.accounting.traffic import positive


def pages_of(length: int, page_size: int) -> int:
    """Return how many pages a sequence of ``length`` tokens fills or begins; none without tokens.

    Raises:
        ValueError: if ``page_size`` is no positive whole number, or ``length`` is below 0.
    """
    positive(page_size=page_size)
    if not isinstance(length, int) or length < 0:
        raise ValueError(f"a length must be a whole number from 0 on, got {length!r}.")
    return -(-length // page_size)


def reserved_slots(lengths: Iterable[int], page_size: int) -> int:
    """Return the slots of all pages of sequences of these lengths, the empty ones among them."""
    return page_size * sum(pages_of(length, page_size) for length in lengths)


def empty_slots(lengths: Iterable[int], page_size: int) -> int:
    """Return the slots that are reserved and hold no token."""
    lengths = list(lengths)
    return reserved_slots(lengths, page_size) - sum(lengths)


def slot_bytes(*, layers: int, kv_heads: int, d: int, b: int = 2) -> int:
    """Return the bytes of one slot: a row of K and one of V in each layer and key head."""
    return cache_bytes(1, layers=layers, kv_heads=kv_heads, d=d, b=b)


def reusable_tokens(matched: int, prompt: int, page_size: int) -> int:
    """Return how many tokens of a prompt need not be computed: whole pages of the ``matched`` ones.

    Of ``prompt`` tokens the first ``matched`` are cached. The last token is always computed: its
    query makes the first new token.

    Raises:
        ValueError: if there is no token, or more are matched than there are.
    """
    positive(prompt=prompt, page_size=page_size)
    if not isinstance(matched, int) or not 0 <= matched <= prompt:
        raise ValueError(f"matched must be from 0 to prompt = {prompt}, got {matched!r}.")
    return min(matched, prompt - 1) // page_size * page_size


def shared_bytes_saved(sequences: int, shared: int, page_size: int, slot: int) -> int:
    """Return the bytes that ``sequences`` save by keeping a common prefix once, in whole pages.

    Args:
        sequences: how many begin with the same tokens. shared: how many tokens these are.
        page_size: slots of a page. slot: bytes of one (`slot_bytes`).
    """
    positive(sequences=sequences, page_size=page_size, slot=slot)
    if not isinstance(shared, int) or shared < 0:
        raise ValueError(f"shared must be a whole number from 0 on, got {shared!r}.")
    return (sequences - 1) * (shared // page_size) * page_size * slot
