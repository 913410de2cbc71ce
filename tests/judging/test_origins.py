"""Launched tensors are known by their numbers, whatever they are called; copies by their memory."""

from __future__ import annotations

import pytest
import torch

from course_lib.judging.origins import Origins
from course_lib.judging.provenance import Provenance

Q, K = torch.randn(2, 3, 20, 16), torch.randn(2, 3, 30, 16)
FORMS = {
    "itself": lambda k: k,
    "transposed": lambda k: k.transpose(-1, -2).contiguous(),
    "scaled": lambda k: k * 0.25,
    "converted": lambda k: k.double(),
    "padded": lambda k: torch.nn.functional.pad(k, (0, 0, 0, 2)),
    "repeated": lambda k: k.repeat_interleave(2, 1),
    "one head": lambda k: k[1, 2],
    "one head, converted": lambda k: k[1, 2].half(),
    "repeated often": lambda k: k.repeat(70, 1, 1, 1),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_input_is_known_in_every_form(form):
    origins = Origins([Q, K])
    new = {"c": torch.zeros(2, 3, 20), "d": torch.zeros_like(Q)}
    origins.note({"a": Q, "b": FORMS[form](K), **new})
    assert [origins.input_of(name) for name in "abcd"] == [0, 1, None, None]
    assert origins.copied == (set() if form in ("itself", "one head") else {1})


def test_what_several_inputs_are_packed_in_holds_these_and_no_more():
    q, k, v = (torch.randn(40, 16) for _ in range(3))
    origins = Origins([q, k, v])
    origins.note({"all": torch.cat([q, k, v]), "two": torch.cat([v, k])})
    assert origins.launches[0] == {"all": {0, 1, 2}, "two": {1, 2}}
    assert origins.copied == {0, 1, 2}
    assert origins.input_of("all") is None


def test_what_lies_in_the_gaps_of_an_overlapping_view_counts():
    packed = torch.cat([torch.randn(100), K.ravel()])
    origins = Origins([K])
    origins.note({"x": packed[100:].as_strided((2, 2), (K.numel() - 2, 1))})
    assert origins.launches[0] == {"x": {0}}


def test_what_a_launch_wrote_is_no_input_and_what_nobody_knows_may_be_any():
    provenance = Provenance([Q, K])
    origins = Origins([Q, K], sources=provenance.sources)
    made = torch.randn(50)
    origins.note({"x": made})
    provenance.note_written([made.clone()])
    origins.note({"x": made, "y": made[:20].half(), "z": torch.ones(7)})
    assert origins.launches == [{"x": None}, {"x": set(), "y": set(), "z": set()}]


def test_zeros_for_results_are_no_part_of_an_input_that_holds_zeros():
    sparse = torch.eye(20)
    origins = Origins([Q, sparse])
    origins.note({"o": torch.zeros(3, 16), "row": sparse[0, 1:]})
    assert [origins.input_of(name) for name in ("o", "row")] == [None, 1]
    assert not origins.copied


def test_a_name_that_stood_for_two_inputs_stands_for_none():
    origins = Origins([Q, K])
    origins.note({"x": Q})
    origins.note({"x": K})
    assert origins.input_of("x") is None


@pytest.mark.parametrize(
    "view",
    [lambda x: x.transpose(1, 2), lambda x: x[:, 1:], lambda x: x.flatten(0, 1), lambda x: x],
)
def test_a_view_is_no_copy_and_a_copy_of_what_has_gaps_is_one(view):
    wide = torch.randn(2, 3, 20, 32)[..., ::2]
    origins = Origins([wide])
    origins.note({"x": view(wide)})
    assert not origins.copied
    origins.note({"x": view(wide).clone()})
    assert origins.copied == {0}


def test_whole_numbers_that_a_launcher_works_out_are_counted():
    table, lengths = torch.tensor([[7, 2, 9], [4, 1, 3]]), torch.tensor([40, 33])
    origins = Origins([Q, table, lengths])
    wider = torch.nn.functional.pad(table, (0, 5))
    origins.note({"a": table.int(), "b": table[1:], "c": wider, "d": lengths})
    assert origins.most_made == 0
    origins.note({"a": table.repeat_interleave(16, 1), "b": lengths.cumsum(0)})
    assert origins.most_made == 96
