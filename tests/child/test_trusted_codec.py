"""Arguments of a call cross to a child with their strides and shared memory, or are named."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.child import codec as bounded
from course_lib.child import trusted_codec as codec
from course_lib.kernels.tiles import Tiles

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool]


@settings(max_examples=30, deadline=None)
@given(
    shape=st.lists(st.integers(0, 4), max_size=4),
    dtype=st.sampled_from(DTYPES),
    start=st.integers(0, 5),
    order=st.randoms(use_true_random=False),
)
def test_tensors_arrive_with_bytes_strides_and_offset(shape, dtype, start, order):
    size = start + max(1, torch.Size(shape).numel())
    base = torch.randint(0, 2, (size,)).to(dtype)
    tensor = base[start : start + torch.Size(shape).numel()].view(shape)
    axes = list(range(len(shape)))
    order.shuffle(axes)
    tensor = tensor.permute(axes)
    copy = codec.decode(codec.encode(tensor))
    assert torch.equal(copy, tensor)
    assert (copy.stride(), copy.storage_offset()) == (tensor.stride(), tensor.storage_offset())
    empty = codec.decode(codec.encode(tensor, contents=False))
    assert (empty.shape, empty.stride(), empty.dtype) == (copy.shape, copy.stride(), copy.dtype)


def test_views_of_one_buffer_share_it_again():
    base = torch.arange(6.0)
    rest = [base[2:], (1, None, "x", torch.float16, 0.5)]
    value = codec.decode(codec.encode({"a": base[:4], "rest": rest}))
    value["a"][2] = 9
    assert value["rest"][0][0] == 9
    assert value["rest"][1] == (1, None, "x", torch.float16, 0.5)
    assert base[2] == 2


def test_what_cannot_travel_is_named():
    with pytest.raises(TypeError, match=r"argument 1\[0\] must be a tensor.*got object"):
        codec.encode_call([1, [object()]], {})
    with pytest.raises(TypeError, match=r"^tiles\['x'\] must be .* got function"):
        codec.encode_call([], {"tiles": {"x": lambda: 1}})


def test_a_call_arrives_as_new_objects_each_time():
    data = codec.encode_call([torch.ones(2), b"\x01"], {"causal": True})
    (x, raw), kwargs = codec.decode_call(data)
    x += 1
    assert (raw, kwargs) == (b"\x01", {"causal": True})
    assert codec.decode_call(data)[0][0].tolist() == [1, 1]


def test_nothing_is_too_large_between_two_processes_of_ones_own():
    many = torch.zeros(1).expand(bounded.MAX_ELEMENTS + 1)
    assert codec.decode(codec.encode([many, 1 << 70]))[1] == 1 << 70
    with pytest.raises(bounded.BadFrame):
        bounded.decode(codec.encode([many]))


def test_what_only_ones_own_processes_may_send_is_refused_elsewhere():
    for own in (Tiles(16, 32), torch.device("cpu"), torch.zeros(2, dtype=torch.complex64)):
        with pytest.raises(bounded.BadFrame):
            bounded.decode(codec.encode(own))
    with pytest.raises(bounded.BadFrame):
        bounded.decode(codec.encode(torch.zeros(4), contents=False))
