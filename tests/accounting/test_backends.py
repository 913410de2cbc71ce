"""The checklist of backends: whole, and chosen from as its sources say."""

import pytest

from course_lib.accounting.backends import BACKENDS, SITUATIONS, checklist
from course_lib.specs.lesson_12.choose_backend import EXERCISE


def chosen(**asked):
    need = {"gpu": 90, "dtype": "bf16", "cache": "bf16", "d": 128, "mask": "causal",
            "page": None, "mixed": False, "backward": False} | asked  # fmt: skip
    return EXERCISE.truth(need, BACKENDS)


def test_every_row_answers_everything_that_is_asked():
    for need in SITUATIONS.values():
        for row in BACKENDS:
            assert {"name", *need} == set(row)
    assert len({row["name"] for row in BACKENDS}) == len(BACKENDS)


def test_the_six_situations_get_six_backends():
    names = [EXERCISE.truth(need, BACKENDS)[0] for need in SITUATIONS.values()]
    assert names == ["FlashAttention-3", "FlashInfer", "FlashMLA", "FlashAttention-2",
                     "SDPA efficient", "FlexAttention"]  # fmt: skip
    assert all(name in EXERCISE.notice.replace("\n", " ") for name in names)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"gpu": 100, "mixed": True, "page": 16}, "FlashAttention-4"),
        ({"gpu": 80, "mixed": True, "page": 16}, "FlashInfer"),  # FA2's own pages are of 256
        ({"gpu": 80, "mixed": True, "page": 256}, "FlashAttention-2"),
        ({"gpu": 75, "dtype": "bf16", "backward": True}, "SDPA math"),
        ({"d": 576, "page": 64, "gpu": 100}, None),  # the row is of the dense kernel: SM90 only
        ({"d": 576, "page": 64, "cache": "fp8"}, None),
    ],
)
def test_what_the_sources_say(asked, name):
    assert chosen(**asked)[0] == name


def test_the_table_shows_every_backend():
    text = checklist().to_text()
    assert all(row["name"] in text for row in BACKENDS)
    assert "8 to 256 by 8" in text
    assert "80-90" in text
