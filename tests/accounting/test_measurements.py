"""The recorded measurements: complete, and between the bounds that the models give."""

from __future__ import annotations

import pytest

from course_lib.accounting.measurements import load_measurements
from course_lib.accounting.traffic import flash_compulsory, flash_tile_loads

RECORD = load_measurements("h100_dram_traffic")


def test_the_record_says_what_was_measured_on_what_and_how():
    for key in ("what", "device", "dtype", "head_dim", "source", "notes", "fields"):
        assert RECORD[key]
    assert {"versions", "date", "command"} <= RECORD.keys()
    for row in RECORD["rows"]:
        assert row.keys() == RECORD["fields"].keys()


@pytest.mark.parametrize(
    "row", RECORD["rows"], ids=lambda r: f"{r['n']}-{r['heads']}-{r['causal']}"
)
def test_dram_traffic_lies_between_the_two_models(row):
    """The lower bound may be missed by 5 %: part of O can still be in L2 when counting ends."""
    shape = {"n": row["n"], "heads": row["heads"], "causal": row["causal"], "d": RECORD["head_dim"]}
    low = flash_compulsory.bytes(**shape) / 1e9
    high = flash_tile_loads.bytes(block_q=128, **shape) / 1e9
    assert 0.95 * low <= min(row["dram_gb"]) <= max(row["dram_gb"]) <= high
    assert max(row["dram_gb"]) <= row["l2_gb"]


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="h100_dram_traffic"):
        load_measurements("h100")
