"""What crosses between processes arrives as it was, and nothing else can be brought in."""

from __future__ import annotations

import contextlib
import json
import random
import resource
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
from child import forged_frames
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from course_lib.child import codec
from course_lib.child.codec import BadFrame, Decoder, decode
from course_lib.judging import books
from course_lib.judging.hosts.launch_message import clean_launch
from course_lib.judging.replay import OF_FORGED_DATA

NUMBERS = hnp.arrays(
    dtype=st.sampled_from([np.float16, np.float32, np.float64, np.int32, np.uint8, np.bool_]),
    shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
NUMPY_TEXTS = st.builds(np.str_, st.text(max_size=9)) | st.builds(np.bytes_, st.binary(max_size=9))
PLAIN = st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats() | st.text(max_size=9)
VALUES = st.recursive(
    PLAIN | NUMBERS | st.binary(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(VALUES)
def test_what_is_sent_arrives(value):
    _same(codec.decode(codec.encode(value)), value)


def _same(got, sent):
    assert type(got) is type(sent)
    if isinstance(sent, np.ndarray):
        assert got.dtype == sent.dtype
        np.testing.assert_array_equal(got, sent)
    elif isinstance(sent, list | tuple):
        assert len(got) == len(sent)
        for a, b in zip(got, sent, strict=True):
            _same(a, b)
    elif isinstance(sent, dict):
        assert list(got) == list(sent)
        for key in sent:
            _same(got[key], sent[key])
    elif isinstance(sent, float):
        assert got == sent or (np.isnan(got) and np.isnan(sent))
    elif isinstance(sent, str):
        assert got == sent.encode("utf-8", "replace").decode()
    else:
        assert got == sent


def test_tensors_keep_strides_and_shared_memory():
    packed = torch.arange(24, dtype=torch.bfloat16).reshape(2, 3, 4)
    q, k = codec.decode(codec.encode((packed[0].T, packed[1])))
    assert q.stride() == packed[0].T.stride()
    assert torch.equal(q, packed[0].T)
    assert torch.equal(k, packed[1])
    assert q.untyped_storage().data_ptr() == k.untyped_storage().data_ptr()


@settings(max_examples=30, deadline=None)
@given(NUMPY_TEXTS)
def test_numpys_strings_arrive_as_strings(text):
    """A label taken out of an array of labels is a string like any other."""
    got = codec.decode(codec.encode(text))
    assert got == text.item()
    assert type(got) in (str, bytes)


def test_a_message_is_no_larger_when_it_is_unpacked():
    """Few bytes that stand for many elements, or that are copied many times, are refused."""
    wide = torch.zeros(1).expand(codec.MAX_ELEMENTS // 2 - 1024)
    assert len(codec.decode(codec.encode([wide, wide]))) == 2
    for many in ([wide] * 3, [torch.empty(0)] * 20_000):
        with pytest.raises(codec.BadFrame, match="too many elements in all"):
            codec.decode(codec.encode(many))
    for again in (["a", "u1", [16], 0, 16], ["b", 0, 16], ["T", "uint8", [1], [1], 0, 0, 16]):
        other = [*again[:-2], 8, 8] if again[0] == "T" else again
        other = [other[0], other[1], [8], 8, 8] if again[0] == "a" else other
        with pytest.raises(codec.BadFrame, match="the same bytes twice"):
            _decode(["l", [again, other]])


MALFORMED = [
    ["a", "f4", [1 << 40, 0], 0, 0],
    ["T", "float32", [0, 1 << 40], [1, 1], 0, 0, 0],
    "half a pair: \ud800",
    ["l", ["\udfff"]],
    ["e", "\ud800"],
    ["a", "f4", [1 << 40], 0, 16],
    ["a", "f4", [4], 0, 1 << 40],
    ["a", "f4", [-4, -1], 0, 16],
    ["a", "O", [2], 0, 16],
    ["a", "f4", [2, True], 0, 8],
    ["T", "float32", [4], [1], 1, 0, 16],
    ["T", "float32", [4], [-1], 3, 0, 16],
    ["T", "float32", [1 << 20, 1 << 20], [0, 0], 0, 0, 16],
    ["T", "complex64", [1], [1], 0, 0, 16],
    ["b", -1, 4],
    ["unknown", 1],
    ["f", "not hexadecimal"],
    ["p", "GPU", {"name": "x"}],
    ["d", [[["l", []], 1]]],
    [],
    {"a": 1},
]


@pytest.mark.parametrize("data", MALFORMED, ids=str)
def test_malformed_values_are_refused_before_anything_is_allocated(data):
    with pytest.raises(codec.BadFrame):
        _decode(data)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=80), st.binary(max_size=20))
def test_noise_is_refused_with_one_kind_of_error(text, blob):
    with contextlib.suppress(codec.BadFrame):
        codec.decode(codec.joined(text, blob))
    with contextlib.suppress(codec.BadFrame):
        codec.decode(text + blob)


def _decode(data):
    return codec.decode(codec.joined(json.dumps(data).encode(), b"\0" * 16))


def test_a_message_that_is_shorter_than_it_says_is_refused():
    whole = codec.encode({"x": np.arange(8.0)})
    for size in (0, 3, 4, 10, len(whole) - 1):
        with pytest.raises(codec.BadFrame):
            codec.decode(whole[:size])


def test_a_forged_message_cannot_stall_or_fill_the_reader():
    """Keys whose hashes are alike, a class for every value, more values than anybody sends."""
    p = (1 << 61) - 1  # integers that differ by this have the same hash
    for alike in ([i * p for i in range(20_000)], [["t", [i]] for i in range(9)]):
        started = time.monotonic()
        with pytest.raises(codec.BadFrame, match=r"63 bits|strange keys"):
            _decode(["d", [[key, 0] for key in alike]])
        assert time.monotonic() - started < 2
    tracemalloc.start()
    many = _decode(["l", [["x", f"name {i}"] for i in range(20_000)]])
    size = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len({type(x) for x in many}) <= codec.MAX_NAMES + 1
    assert size < 40 << 20
    with pytest.raises(codec.BadFrame, match="too many values"):
        _decode(["l", [0] * codec.MAX_NODES])


def test_what_cannot_cross_is_known_by_the_name_of_its_class():
    class Mine:
        pass

    got = codec.decode(codec.encode([Mine(), len, (x for x in ()), 1 << 70, {(1, 2): "x"}]))
    assert [type(x).__name__ for x in got[:3]] == ["Mine", "function", "generator"]
    assert repr(got[3]) == "<a very large integer>"
    ((key, value),) = got[4].items()
    assert (repr(key), value) == ("<tuple>", "x")


# Forged frames ------------------------------------------------------------------------------------

SECONDS, BYTES = 2.0, 700 << 20  # of CPU, and of memory beyond that at the start, for any frame


def memory() -> int:
    """Return the most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def read(data: bytes) -> bool:
    """Read a frame as the grader does, and look at what it says; return whether it was read."""
    try:
        value = decode(data)
    except BadFrame:
        return False
    if isinstance(value, dict):
        with contextlib.suppress(BadFrame, *OF_FORGED_DATA):
            clean_launch(value.get("launch"))
        with contextlib.suppress(BadFrame):
            books.rebuilt(value.get("ledger"))
    return True


def fuzz(frames: int, seed: int) -> None:
    """Read so many forged frames: each is read or refused, soon and in little memory."""
    rng, refused = random.Random(seed), 0
    before = memory()
    for number in range(frames):
        data = forged_frames.frame(rng)
        started = time.process_time()
        try:
            refused += not read(data)
        except BaseException as error:
            pytest.fail(f"seed {seed}, frame {number}: {error!r} from {data[:300]!r}")
        spent = time.process_time() - started
        assert spent < SECONDS, f"seed {seed}, frame {number}: {spent} s for {data[:300]!r}"
        grown = memory() - before
        assert grown < BYTES, f"seed {seed}, frame {number}: {grown} bytes for {data[:300]!r}"
    assert 0.3 < refused / frames < 0.95, "frames that are all refused, or all good, try nothing"


def test_a_few_thousand_forged_frames_are_read_or_refused():
    fuzz(3_000, random.randrange(1 << 32))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_hundred_thousand_forged_frames_are_read_or_refused():
    fuzz(100_000, 12)


def test_the_fuzzing_would_see_a_decoder_that_lets_an_error_out(monkeypatch):
    def careless(data: bytes) -> Any:
        n_text = int.from_bytes(data[:4])
        return Decoder(memoryview(data)[4 + n_text :]).value(json.loads(data[4 : 4 + n_text]))

    monkeypatch.setitem(globals(), "decode", careless)
    with pytest.raises(pytest.fail.Exception, match="frame"):
        fuzz(300, 12)
