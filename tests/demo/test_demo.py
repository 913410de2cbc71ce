"""The live demo: peaks are real, running out of memory is a record, the picture says both."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from course_lib import demo
from course_lib.demo.measure import _BACKENDS
from course_lib.demo.peak import METHODS, cells, predicted_bytes
from course_lib.demo.worker import Worker

LENGTHS = (512, 1024, 2048, 4096)
HEADS, HEAD_DIM, LIMIT_GB = 4, 64, 0.2  # naive wants 512 MiB at 4096, 128 MiB at 2048

linux_cpu = pytest.mark.skipif(
    sys.platform != "linux" or os.path.exists("/dev/nvidia0"), reason="measures a Linux process"
)


@pytest.fixture(scope="module")
def found():
    patch = pytest.MonkeyPatch()
    patch.setenv("OMP_NUM_THREADS", "1")
    yield demo.peak_memory(
        LENGTHS, heads=HEADS, head_dim=HEAD_DIM, dtype="float32", limit_gb=LIMIT_GB
    )
    patch.undo()


def of(found, method):
    return [r for r in found.records if r.method == method]


def test_records_arrive_in_order_one_per_method_and_length(found):
    assert [(r.n, r.method) for r in found.records] == [
        (n, method) for n in LENGTHS for method in ("naive", "fused")
    ]


def test_running_out_of_memory_is_a_record_and_the_smaller_method_goes_on(found):
    *ran, stopped = of(found, "naive")
    assert all(not r.out_of_memory for r in ran)
    assert "limit" in stopped.out_of_memory
    assert stopped.predicted_bytes > LIMIT_GB * 1e9
    assert stopped.ledger_bytes is stopped.measured_bytes is stopped.bytes is None
    assert of(found, "fused")[-1].bytes < LIMIT_GB * 1e9


@linux_cpu
def test_the_ledger_counts_what_the_formula_predicts_to_the_byte(found):
    for record in found.records:
        if not record.out_of_memory:
            assert record.ledger_bytes == record.predicted_bytes, record


def test_the_prediction_is_two_score_matrices_or_o_and_lse():
    naive, fused = (predicted_bytes(m, 4096, 8, 128, 2, lse=False) for m in METHODS)
    assert (naive, fused) == (512 * 2**20, 8 * 2**20)  # as measured on an H100
    assert predicted_bytes("fused", 4096, 8, 128, 2) == fused + 4096 * 8 * 4


@linux_cpu
def test_the_process_really_grows_fourfold_for_naive_and_twofold_for_fused(found):
    naive = [r.measured_bytes for r in of(found, "naive")[:-1]]
    fused = [r.measured_bytes for r in of(found, "fused")]
    assert [big / small for small, big in itertools.pairwise(naive)] == pytest.approx(
        [4, 4], rel=0.15
    )
    assert 1.4 < fused[-1] / fused[-2] < 2.6
    for record in of(found, "naive")[:-1]:
        assert record.measured_bytes == pytest.approx(record.ledger_bytes, rel=0.15, abs=2**20)


def test_the_backend_is_named_in_words(found):
    assert {r.backend for r in of(found, "naive")[:-1]} == {"three lines of eager PyTorch"}
    (fused,) = {r.backend for r in of(found, "fused")}
    assert fused in _BACKENDS.values()
    assert f"fused: {fused}" in found.table()


def test_the_table_and_its_html_hold_every_record(found):
    text = found.table()
    assert all(f"{r.n:>7}  {r.method}" in text for r in found.records)
    assert "out of memory" in text
    assert str(found) == text
    page = found._repr_html_()
    for record in found.records:
        n, *others = cells(record)
        assert f">{n}</th>" in page
        assert all(f">{cell}</td>" in page for cell in others)


@pytest.mark.parametrize("wide", [True, False], ids=["wide", "narrow"])
def test_an_area_is_its_bytes_and_crosses_the_limit_only_if_it_does_not_fit(found, wide):
    """A unit of the axes is a byte, and the limit is an area of the same shape."""
    figure = found.to_figure()
    (axes,) = (figure if wide else figure.narrow).axes
    assert axes.get_aspect() == 1
    for record, area in zip(found.records, areas(axes), strict=True):
        want = record.predicted_bytes if record.out_of_memory else record.bytes
        assert area.get_width() * area.get_height() == pytest.approx(want)
        assert area.get_width() == pytest.approx(2 * area.get_height()), "S beside P, always"
    naive = [a for r, a in zip(found.records, areas(axes), strict=True) if r.method == "naive"]
    limit = next(line for line in axes.lines if line.get_gid() == "limit")
    (left, right), (low, high) = (
        (min(ends), max(ends)) for ends in (limit.get_xdata(), limit.get_ydata())
    )
    assert (left, low) == pytest.approx((naive[-1].get_x(), naive[-1].get_y())), "at its corner"
    assert right - left == pytest.approx(2 * (high - low))
    assert (right - left) * (high - low) == pytest.approx(LIMIT_GB * 1e9)
    last = [record for record in found.records if record.method == "naive"][-1]
    assert (naive[-1].get_height() > high - low) == bool(last.out_of_memory)
    assert "limit 190.7 MiB" in " ".join(text.get_text() for text in axes.texts)


def areas(axes):
    """Return the records' areas; a polygon hatches what of one lies past the limit."""
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


def test_what_does_not_fit_is_pale_and_hatched_past_the_limit(found):
    """The largest area, the one that matters, was a white hole."""
    (axes,) = found.to_figure().axes
    (hatched,) = [patch for patch in axes.patches if patch.get_hatch()]
    pale = [area for area in areas(axes) if area.get_facecolor()[3] < 1]
    assert len(areas(axes)) == len(found.records)
    assert len(pale) == 1
    assert 0.1 < pale[0].get_facecolor()[3] < 0.3, "and no measurement's full colour"
    whole, excess = (area.get_window_extent().extents for area in (pale[0], hatched))
    assert excess == pytest.approx(whole, abs=1), "all of it but the limit's corner"
    inside = (pale[0].get_x() + 0.1 * pale[0].get_width(), 0.1 * pale[0].get_height())
    assert not hatched.contains_point(axes.transData.transform(inside))
    assert any("out of" in text.get_text() for text in axes.texts)


def test_every_label_has_its_unit_and_small_ones_have_the_same(found):
    """984 KiB stood before a bare 2.87, of MiB."""
    sizes = {512: 984 * 2**10, 1024: 2.87 * 2**20, 2048: 4.85 * 2**20}
    fused = next(record for record in found.records if record.method == "fused")
    records = [replace(fused, n=n, measured_bytes=int(size)) for n, size in sizes.items()]
    (axes,) = replace(found, records=tuple(records)).to_figure().axes
    said = [text.get_text() for text in axes.texts]
    assert {"0.96 MiB", "2.87 MiB", "4.85 MiB"} <= set(said)


def test_the_title_says_what_both_need_at_one_n_and_the_limit(found):
    """Two lengths in one sentence: "At N = 4096 naive passes …; at 2048 fused needs 52 × less"."""
    least = of(found, "fused")[-1].bytes / 2**20
    needs = f"At N = 4096 naive needs 512 MiB, fused {least:.0f} MiB; "
    assert found.finding() == f"{needs}our limit is 190.7 MiB"
    assert replace(found, limit_bytes=None).finding() == f"{needs}naive runs out of memory"


@pytest.mark.parametrize("wide", [True, False], ids=["wide", "narrow"])
def test_between_neighbours_stands_by_what_each_grew(found, wide):
    """ "× 1.7 to 2.7" stood beside four values, and its reader had to divide them."""
    fused = iter([1000, 2700, 4590, 9000])
    records = tuple(
        replace(r, measured_bytes=None, ledger_bytes=next(fused) if r.method == "fused" else (
            r.predicted_bytes if r.bytes else None
        ))
        for r in found.records
    )  # fmt: skip
    figure = replace(found, records=records).to_figure()
    (axes,) = (figure if wide else figure.narrow).axes
    factors = [text for text in axes.texts if text.get_text().startswith("× ")]
    said = [text.get_text() for text in factors]
    steps = 3 if wide else 2  # on a narrow page the last stands in a row of its own
    assert said == ["× 4"] * steps + ["× 2.7", "× 1.7", "× 2"][:steps]
    naive = [a for r, a in zip(records, areas(axes), strict=True) if r.method == "naive"]
    for factor, (before, after) in zip(factors, itertools.pairwise(naive), strict=False):
        if factor.get_text() == "× 4":
            assert before.get_x() < factor.xy[0] == pytest.approx(after.get_x())


def test_the_area_before_stands_inside_the_next_four_times(found):
    """That a doubling is four times the area was a sentence: now the four can be counted."""
    axes = found.to_figure().axes[0]
    ghosts = [line for line in axes.lines if line.get_gid() == "half"]
    assert ghosts
    sizes = [
        float(np.ptp(ghost.get_xdata()) * np.ptp(ghost.get_ydata())) for ghost in ghosts
    ]  # those of one N stand together
    assert len(sizes) % 4 == 0
    fours = [sizes[i : i + 4] for i in range(0, len(sizes), 4)]
    assert all(four == pytest.approx([four[0]] * 4) for four in fours)
    for small, large in itertools.pairwise(fours):
        assert large[0] == pytest.approx(4 * small[0])
    largest = max(areas(axes), key=lambda area: area.get_width())
    assert sum(fours[-1]) == pytest.approx(largest.get_width() * largest.get_height())
    assert [text.get_text() for text in axes.texts].count("N = 2048") == 4


@pytest.mark.parametrize("limit", [True, False])
def test_the_note_below_the_picture_is_short(found, limit):
    some = found if limit else replace(found, limit_bytes=None)
    note = some.to_figure().note
    assert len(note) < 130


def test_presenter_means_larger_type(found):
    def sizes(presenter):
        return {t.get_fontsize() for t in found.to_figure(presenter=presenter).axes[0].texts}

    for end in (min, max):
        assert end(sizes(True)) > 1.5 * end(sizes(False))


def test_an_empty_state_can_be_drawn(found):
    demo.PeakMemory((), "a CPU", "nothing", "float32", 8, 64, None).to_figure()


def test_a_terminal_gets_one_line_per_record(found, capsys):
    show = demo._display(presenter=False)
    for count in range(3):
        show(demo.PeakMemory(found.records[:count], "a CPU", "", "float32", 4, 64, None))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[-2:]] == [["512", "naive"], ["512", "fused"]]


def test_a_notebook_gets_one_picture_that_is_updated(found, monkeypatch):
    ipython = pytest.importorskip("IPython")
    shown, updated = [], []
    handle = SimpleNamespace(update=updated.append)
    monkeypatch.setattr(ipython, "get_ipython", lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setattr(
        "IPython.display.display", lambda image, display_id: shown.append(image) or handle
    )
    show = demo._display(presenter=False)
    for count in range(3):
        show(demo.PeakMemory(found.records[:count], "a CPU", "", "float32", 4, 64, None))
    assert (len(shown), len(updated)) == (1, 2)
    assert "<svg" in updated[-1].data
    assert "512  fused" in updated[-1].data


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals")
def test_a_child_killed_by_the_system_is_a_record_and_the_next_length_runs():
    asked = {"n": 64, "dtype": "float32", "heads": 1, "head_dim": 16, "limit_bytes": None}
    with Worker("fused") as worker:
        worker.process.send_signal(signal.SIGKILL)
        worker.process.wait()
        assert worker.measure(asked).out_of_memory == "the system ended the process"
        assert worker.measure(asked).ledger_bytes >= 64 * 16 * 4


def test_a_failure_is_an_error_and_not_called_one_of_memory():
    """Nor is a child that breaks: its last line is quoted."""
    with Worker("naive") as worker:
        with pytest.raises(RuntimeError, match="naive attention"):
            worker.ask(
                {"n": -5, "dtype": "float32", "heads": 1, "head_dim": 16, "limit_bytes": None}
            )
        print("no JSON", file=worker.process.stdin, flush=True)
        with pytest.raises(RuntimeError, match=r"naive attention ended: .*JSONDecodeError"):
            worker.ask({})


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"lengths": (0,)}, "lengths"),
        ({"heads": -1}, "heads"),
        ({"limit_gb": 0}, "limit_gb"),
        ({"dtype": "int8"}, "dtype"),
    ],
)
def test_bad_input_gets_one_sentence(wrong, named):
    with pytest.raises(ValueError, match=f"^{named} must be"):
        demo.peak_memory(**wrong)


def test_importing_the_demo_loads_no_torch():
    code = "import sys, course_lib.demo; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
