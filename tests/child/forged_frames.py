"""Frames that nobody makes: good ones damaged, parts that fit badly, little that costs much."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from course_lib.child.codec import Decoder, encode, joined

_numbers = np.arange(24, dtype=np.float32).reshape(4, 6)
_tensor = torch.arange(48.0).reshape(6, 8)
_LAUNCH = {
    "source": "@triton.jit\ndef k(x):\n    pass\n",
    "name": "k",
    "grid": [3, 1],
    "args": {"x": _tensor[::2], "n": 7, "d": {"descriptor": (_tensor, [6, 8], [8, 1], [2, 4])}},
    "options": {"num_warps": 4},
}
MESSAGES = [
    {"result": (_numbers, _tensor.T, np.float64(2.5)), "ledger": None, "tampering": None},
    {"launch": _LAUNCH},
    {"error": {"kinds": ["ValueError"], "text": "text", "lines": ["line"]}},
    {
        "ledger": {
            "kind": "eager",
            "read": {"q": 3},
            "peak": 1 << 40,
            "crossings": [],
            "unseen": [],
            "of_given": [],
        }
    },
    {b"k": [None, True, -3, 1e300, "text", b"bytes", {2: (3, [4])}]},
    [_tensor[:0], _tensor[1, 2], _tensor.half(), torch.float16, _numbers > 3, object(), print],
]
_KINDS = [*Decoder.kinds, "", "zz"]
_NUMBERS = [0, 1, -1, 7, 255, 1 << 20, (1 << 61) - 1, 1 << 62, 1 << 63, -(1 << 63), 1 << 200, 0.5]
_NAMES = ["f4", "i8", "b1", "float32", "bfloat16", "bool", "O", "V8", "GPU", "text", "", "\ud800"]


def part(rng: random.Random, depth: int = 0) -> Any:
    """Return JSON data much like what an encoder writes."""
    kinds: list[Callable[[], Any]] = [
        lambda: rng.choice(_NUMBERS),
        lambda: rng.choice(_NAMES),
        lambda: rng.choice([None, True, float("inf"), {}, {"a": 1}, []]),
    ]
    if depth < 5:
        few = range(rng.randrange(5))
        kinds += [
            lambda: [rng.choice(_KINDS), *(part(rng, depth + 1) for _ in few)],
            lambda: [rng.choice("lt"), [part(rng, depth + 1) for _ in few]],
            lambda: ["d", [[part(rng, depth + 1), part(rng, depth + 1)] for _ in few]],
            lambda: ["a", rng.choice(_NAMES), [rng.randrange(-1, 9) for _ in few], 0, 64],
            lambda: [
                "T", "float32", [rng.choice(_NUMBERS) for _ in few],
                [rng.choice(_NUMBERS) for _ in few], rng.choice(_NUMBERS), 0, 64,
            ],
        ]  # fmt: skip
    return rng.choice(kinds)()


def heavy(rng: random.Random) -> Any:
    """Return JSON data that are small for what they might cost."""
    n = 1 << rng.randrange(20)
    return rng.choice(
        [
            ["l", [0] * n],
            ["l", [["x", f"name {i}"] for i in range(min(n, 1 << 16))]],
            ["d", [[i * ((1 << 61) - 1) % (1 << 63), None] for i in range(min(n, 1 << 17))]],
            ["d", [[["f", float(i).hex()], i] for i in range(min(n, 1 << 15))]],
            ["l", [["T", "float32", [n, n], [0, 0], 0, 0, 64]] * min(n, 99)],
            ["l", [["T", "int8", [0] * 16, [n] * 16, n, 0, 64]] * min(n, 1 << 14)],
            ["l", [["a", "i1", [0, n], 0, 0]] * min(n, 1 << 14)],
            ["l", [["b", 0, 64]] * min(n, 999)],
            ["a", "f8", [n] * rng.randrange(20), 0, 64],
            ["y", "x" * n],
            ["e", "x" * n],
            ["f", "0x" + "1" * n],
            ["p", "GPU", ["d", [[f"field {i}", 0] for i in range(min(n, 999))]]],
        ]
    )


def frame(rng: random.Random) -> bytes:
    """Return a forged frame: a good one damaged, or one of parts that fit badly."""
    data = encode(rng.choice(MESSAGES))
    n_text = int.from_bytes(data[:4])
    text, blob = data[4 : 4 + n_text], data[4 + n_text :]
    way = rng.randrange(16)
    if way < 5:  # bytes
        damaged = bytearray(data)
        for _ in range(rng.randrange(1, 6)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        return bytes(damaged[: rng.choice([len(damaged), rng.randrange(len(damaged) + 1)])])
    if way < 10:  # one place of the JSON
        content = json.loads(text)
        _change_a_place(rng, content)
        return joined(json.dumps(content).encode(), blob)
    if way < 14:
        return joined(json.dumps(part(rng)).encode(), os.urandom(64))
    if way == 14:
        return joined(b"[" * rng.choice([40, 4000, 400_000]) + rng.choice([b"", b"9" * 9999]), blob)
    return joined(json.dumps(heavy(rng)).encode(), bytes(64)) if rng.random() < 0.1 else text


def _change_a_place(rng: random.Random, content: Any) -> None:
    while True:
        places = range(len(content))
        at = rng.choice(places)
        inner = content[at]
        if isinstance(inner, list) and inner and rng.random() < 0.8:
            content = inner
            continue
        content[at] = rng.choice([part(rng, 3), rng.choice(_NUMBERS), content[:], None])
        return
