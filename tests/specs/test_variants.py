"""Seeded variants of 7★: each kind's truth, its named mistakes, its notebook, its grade."""

from __future__ import annotations

import json
import re
from functools import cache

import numpy as np
import pytest
import torch
from helpers import code, module_from
from hypothesis import given, settings
from hypothesis import strategies as st
from specs.variant_kernels import number, source, visiting_too_much, wrong

from course_lib import cli
from course_lib.attention import masks
from course_lib.attention.truth import attention_float64
from course_lib.authoring.variant_notebook import notebook
from course_lib.checking import report_for
from course_lib.judging.report import Verdict
from course_lib.specs import UnknownExercise, find, variants
from course_lib.specs.variants import alibi, prefix, soft_cap
from course_lib.specs.variants.judge import LOADS
from course_lib.specs.variants.rule import attend, visited


def _one_seed_each() -> dict[str, str]:
    seeds: dict[str, str] = {}
    for i in range(100):
        seeds.setdefault(variants.variant(f"t{i}").kind, f"t{i}")
    return seeds


SEED = _one_seed_each()


@cache
def report(seed: str, edits: tuple = ()):
    launcher = module_from(source(seed, edits)).flash_variant
    return report_for(launcher, seed=1, variant=f"7-star:{seed}")


def test_there_is_a_seed_for_every_kind():
    assert set(SEED) == set(variants.KINDS)


# Right and wrong ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SEED)
@pytest.mark.few(2)
def test_a_right_solution_passes(kind):
    assert report(SEED[kind]).passed, report(SEED[kind]).text()


WRONG = [
    pytest.param(kind, name, marks=[pytest.mark.slow] if i > 2 else [], id=f"{kind}: {name}")
    for kind, seed in SEED.items()
    for i, name in enumerate(wrong(seed))
]


@pytest.mark.parametrize(("kind", "name"), WRONG)
@pytest.mark.few(6)
def test_a_mistake_fails_under_its_own_name(kind, name):
    found = report(SEED[kind], wrong(SEED[kind])[name])
    assert found.verdict is Verdict.INCORRECT
    assert found.misconception == name, found.text()


@pytest.mark.parametrize("kind", SEED)
def test_tiles_that_nobody_sees_must_be_skipped(kind):
    found = report(SEED[kind], visiting_too_much(SEED[kind]))
    assert found.failed_property == LOADS, found.text()


@pytest.mark.parametrize("kind", SEED)
def test_the_plain_kernel_of_7_star_passes_no_variant(kind):
    plain = code(7)
    made = variants.variant(SEED[kind])
    given, sinks = ("causal=causal", ", sinks") if made.takes_causal else ("causal=True", "")
    sinks = sinks if made.n_sinks else ""
    flags = "causal=False, " if made.takes_causal else ""
    plain += f"\n\ndef flash_variant(q, k, v{sinks}, *, {flags}block_q=64, block_k=64):\n"
    plain += f"    return flash_from_scratch(q, k, v, {given}, block_q=block_q, block_k=block_k)\n"
    found = report_for(module_from(plain).flash_variant, seed=1, variant=f"7-star:{SEED[kind]}")
    assert found.verdict is Verdict.INCORRECT
    assert "missing" in found.misconception, found.text()


@pytest.mark.parametrize("kind", SEED)
@pytest.mark.parametrize("null", ["zeros", "mean of V", "q"])
@pytest.mark.usefixtures("unnamed")
def test_null_models_fail(kind, null):
    def flash_variant(q, k, v, *more, **how):
        o = torch.zeros_like(q)
        if null == "mean of V":
            o += v.mean(-2, keepdim=True).repeat_interleave(q.shape[1] // k.shape[1], 1)
        return (q.clone() if null == "q" else o), torch.zeros(q.shape[:-1])

    found = report_for(flash_variant, seed=1, variant=f"7-star:{SEED[kind]}")
    assert found.verdict is Verdict.INCORRECT


# The truth ----------------------------------------------------------------------------------------


def drawn(n_q: int, n_k: int, heads: int = 2, d: int = 8):
    rng = np.random.default_rng(n_q * 1000 + n_k)
    return (3 * rng.standard_normal((1, heads, n, d)) for n in (n_q, n_k, n_k))


def _lengths(n: int, n_k: int) -> list[int]:
    return [n] * (n_k // n) + ([n_k % n] if n_k % n else [])


MASKS = {
    "window": lambda n, n_k: masks.sliding_window(n),
    "prefix": lambda n, n_k: masks.prefix(n),
    "document": lambda n, n_k: masks.both(masks.document(_lengths(n, n_k)), masks.causal()),
}


@settings(max_examples=12, deadline=None)
@given(kind=st.sampled_from(list(MASKS)), n_q=st.integers(1, 130), n_k=st.integers(1, 130))
def test_masks_are_those_of_lesson_04(kind, n_q, n_k):
    """Truth and visited tiles agree with the course's mask of that name, ragged and n_q > n_k."""
    seed = SEED[kind]
    mask = MASKS[kind](int(number(seed)), n_k)
    q, k, v = drawn(n_q, n_k)
    rule = variants.variant(seed).rule
    expected = attention_float64(q, k, v, allowed=mask.dense(n_q, n_k))
    for got, truth in zip(attend(rule, q, k, v), expected, strict=True):
        np.testing.assert_allclose(got, truth, rtol=1e-12, atol=1e-12)
    for (i, j), seen in np.ndenumerate(visited(rule, n_q, n_k, 16, 32)):
        rows, keys = (i * 16, min(i * 16 + 16, n_q)), (j * 32, min(j * 32 + 32, n_k))
        assert seen == (mask.classify(*rows, *keys, n_q, n_k) is not masks.Tile.SKIP)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["soft-cap", "sink", "alibi"])
def test_changed_scores_agree_with_plain_pytorch(kind, causal):
    """The truth against an independent softmax in float64, written out in PyTorch."""
    made, (q, k, v) = variants.variant(SEED[kind]), drawn(20, 33)
    n = float(number(SEED[kind]))
    s = torch.from_numpy(q @ k.swapaxes(-1, -2)) / 8**0.5
    apart = (torch.arange(20)[:, None] + 13 - torch.arange(33)).double()
    sinks = torch.randn(2, made.n_sinks, dtype=torch.float64) if made.n_sinks else None
    if kind == "soft-cap":
        s = n * torch.tanh(s / n)
    elif kind == "alibi":
        slopes = torch.tensor([2 ** (-n / 2), 2**-n], dtype=torch.float64)
        s = s - slopes[:, None, None] * apart.abs()
    if causal:
        s = s.masked_fill(apart < 0, -torch.inf)
    if sinks is not None:
        s = torch.cat([s, sinks[None, :, None].expand(1, 2, 20, -1)], -1)
    o = torch.softmax(s, -1)[..., :33] @ torch.from_numpy(v)
    got = attend(made.rule, q, k, v, *([sinks] if sinks is not None else []), causal=causal)
    np.testing.assert_allclose(got[0], o, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(got[1], torch.logsumexp(s, -1), rtol=1e-10)


# Seeds and words ----------------------------------------------------------------------------------


def words(seed: str) -> str:
    cells = json.loads(notebook(seed)[1])["cells"]
    return "".join(line for cell in cells for line in cell["source"])


@settings(max_examples=20, deadline=None)
@given(st.from_regex(r"[A-Za-z0-9_-]{1,32}", fullmatch=True))
def test_the_same_seed_is_the_same_variant_and_its_task_names_its_parameter(seed):
    assert notebook(seed) == notebook(seed)
    made = variants.variant(seed)
    assert re.search(rf"\b{re.escape(number(seed))}\b", made.task), made.task
    assert f'variant="7-star:{seed}"' in words(seed)
    assert "{" not in re.sub(r"\$\$.*?\$\$", "", made.task, flags=re.DOTALL)


def test_different_seeds_differ():
    made = {variants.variant(str(i)).title for i in range(100)}
    assert len(made) > 50


def test_the_notebook_holds_no_solution_and_is_not_attempted(tmp_path):
    for kind, seed in SEED.items():
        text = words(seed)
        assert "tl.dot" not in text, kind
        stub = text[text.index("def flash_variant") : text.index("check(flash_variant")]
        found = report_for(
            module_from("import torch\n" + stub).flash_variant, variant=f"7-star:{seed}"
        )
        assert found.verdict is Verdict.NOT_ATTEMPTED


@pytest.mark.parametrize("name", ["7-star:", "7-star:a b", "7.1:a", "x:y", "7-star:" + "a" * 33])
def test_what_is_no_variant_is_said_in_a_sentence(name):
    with pytest.raises(UnknownExercise, match=r"^(A seed|Only 7-star) .*\.$"):
        find(name)


def test_another_function_is_not_the_variant():
    with pytest.raises(LookupError, match="asks for flash_variant"):
        report_for(lambda: 0, variant="7-star:a")


def test_hints_are_three_and_a_soft_cap_needs_no_tanh_of_tritons():
    for make in (soft_cap.make, alibi.make, prefix.make):
        assert len(make(np.random.default_rng(0)).hints) == 3


# The commands -------------------------------------------------------------------------------------


def test_the_command_writes_a_notebook_once(tmp_path, capsys):
    arguments = ["variant", "7★", "--seed", "autumn", "--out", str(tmp_path / "new")]
    assert cli.main(arguments) == 0
    assert "course grade SUBMISSIONS --out DIR --variant 7-star:autumn" in capsys.readouterr().out
    assert cli.main(arguments) == 2
    assert "exists already" in capsys.readouterr().err
    assert cli.main([*arguments, "--force"]) == 0
    for wrong_request in (
        ["variant", "7.1", "--seed", "a"],
        ["variant", "7-star", "--seed", "../a"],
        ["variant", "7-star", "--seed", "a", "--out", str(tmp_path / "new" / "x.ipynb")],
    ):
        (tmp_path / "new" / "x.ipynb").write_text("")
        assert cli.main(wrong_request) == 2
        assert capsys.readouterr().err.count("\n") == 1


def filled(seed: str, text: str) -> str:
    """Return the variant's notebook with ``text`` in the exercise's cell."""
    data = json.loads(notebook(seed)[1])
    (cell,) = (cell for cell in data["cells"] if cell["id"] == find(f"7-star:{seed}").slug)
    cell["source"] = text
    return json.dumps(data)


@pytest.mark.usefixtures("no_workers")
def test_a_class_is_graded_by_the_instructors_seed(tmp_path, capsys):
    """Whatever a notebook calls itself, the seed on the command line decides what is asked."""
    mine, other = SEED["window"], SEED["prefix"]
    place, out = tmp_path / "class", tmp_path / "out"
    place.mkdir()
    (place / "right.ipynb").write_text(filled(mine, source(mine)))
    (place / "wide.ipynb").write_text(
        filled(mine, source(mine, wrong(mine)["the window is one key too wide"]))
    )
    (place / "blank.ipynb").write_text(notebook(mine)[1])
    (place / "neighbour.ipynb").write_text(filled(other, source(other)))
    command = ["grade", str(place), "--out", str(out)]
    assert cli.main([*command, "--variant", f"7-star:{mine}"]) == 0
    lines = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    outcome = {line["student"]: line["outcome"] for line in lines}
    assert outcome == {
        "right": "passed",
        "wide": "incorrect",
        "blank": "not attempted",
        "neighbour": "incorrect",
    }
    assert {line["exercise"] for line in lines} == {f"7-star:{mine}"}
    assert {line["score"] for line in lines} == {0, 8}
    named = {line["student"]: line.get("misconception") for line in lines}
    assert named["wide"] == "the window is one key too wide"
    capsys.readouterr()
    for further in ([], ["--variant", f"7-star:{other}"], ["--variant", "7.1:a"]):
        assert cli.main([*command, *further]) == 2  # not mixed with what is in there
        assert capsys.readouterr().err.count("\n") == 1
