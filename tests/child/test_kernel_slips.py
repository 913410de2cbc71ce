"""What Triton's interpreter says of NumPy, pointers and masks in a kernel gets a next step."""

from __future__ import annotations

import pytest

import course_lib  # noqa: F401  (before triton: it chooses the mode)

pytest.importorskip("triton")

from helpers import changed, words_of

from course_lib.child.compiler_messages import explain

NUMPY = ("import triton\n", "import numpy as np\nimport triton\n")
BOTH = "(rows[:, None] < n_rows) & (cols[None, :] < n_cols)"
ZEROS = "tl.zeros((BLOCK_M, BLOCK_N), tl.float32)"
LOAD = "tl.load(x + offsets, mask=mask)"
STORE = "tl.store(out + offsets, total, mask=mask)"
MASK = "mask = offsets < n  # the last block may be short"
CAST = "q_tile = q_tile.to(k_tile.dtype)"
SLIPS = {
    "np.exp": (5, "long_logsumexp", [NUMPY, ("tl.exp(m - m", "np.exp(m - m")], "write tl.exp."),
    "np.zeros": (6, "matmul", [NUMPY, (ZEROS, "np.zeros((BLOCK_M, BLOCK_N))")], "write tl.zeros."),
    "torch.exp": (5, "row_softmax", [("tl.exp(", "torch.exp(")], "`torch.exp` is PyTorch's"),
    "torch.zeros": (6, "matmul", [(ZEROS, "torch.zeros((BLOCK_M, BLOCK_N))")], "write tl.zeros."),
    "sum": (5, "row_softmax", [("tl.sum(p, 0)", "sum(p)")], "write tl.sum(p, 0)"),
    ".exp()": (5, "row_softmax", [("tl.exp(s - tl.max(s, 0))", "(s - tl.max(s, 0)).exp()")],
               "as a method, .exp() does not run here"),
    "zeros": (6, "matmul", [(ZEROS, "tl.zeros(BLOCK_M, BLOCK_N)")], "(BLOCK_M, BLOCK_N)."),
    "x[]": (5, "vector_add", [(LOAD, "x[offsets]")], "tl.load(x + offsets, mask=...)"),
    "x[row]": (5, "row_softmax", [("x + row * x_row", "x[row]")],
               "that row begins at x + row * (the row stride)"),
    "float grid": (5, "vector_add", [("triton.cdiv(n, block)", "n / block")],
                   "a grid needs whole numbers"),
    "no comma": (5, "vector_add", [("[(programs,)]", "[programs]")], "add_kernel[(programs,)]("),
    "float, no comma": (5, "vector_add", [("[(programs,)]", "[n / block]")],
                        "a grid needs whole numbers"),
    "no grid": (5, "vector_add", [("[(programs,)]", "")], "add_kernel[(programs,)](...)."),
    "not called": (5, "vector_add", [("tl.program_id(0)", "tl.program_id")],
                   "`tl.program_id` is the function itself: call it"),
    "not called before": (5, "row_softmax", [("tl.program_id(0)", "tl.program_id")],
                          "`tl.program_id` is the function itself: call it"),
    "one argument": (5, "vector_add", [("tl.arange(0, BLOCK)", "tl.arange(BLOCK)")],
                     "tl.arange takes (start, end), and here it got `(BLOCK)`."),
    "return": (5, "vector_add", [(STORE, "return total")], "a kernel returns nothing: store what"),
    "half stored": (7, "ragged_attention", [("tl.store(lse + rows, lse_row, mask=rows < n_q)", "")],
                    "print the addresses of the stores"),
    "row": (7, "rebuild_weights", [("lse[rows, None]", "lse[rows]")],
            "make a column of it, `lse[rows][:, None]`."),
    "out[] =": (5, "vector_add", [(STORE, "out[offsets] = total")], "tl.store(out + offsets, ..."),
    "k.dtype": (6, "tile_scores", [(CAST, "q_tile = q_tile.to(k.dtype)")],
                "`k` is a pointer, and k.dtype the type of an address: write k_tile.dtype, or"),
    "two dtypes": (6, "tile_scores", [(CAST, "pass")],
                   "cast one to the other's dtype, q_tile.to(k_tile.dtype)."),
    "x * 2": (5, "vector_add", [(LOAD, "x * 2.0")], "`x` is a pointer, and only whole numbers"),
    "exp(x)": (5, "row_softmax", [("exp(s -", "exp(x -")], "`x` is a pointer, and only whole"),
    "trans(k)": (6, "tile_scores", [("trans(k_tile)", "trans(k)")], "`k` is a pointer, and only"),
    "max(x)": (5, "row_softmax", [("tl.max(s, 0)", "tl.max(x, 0)")], "`x` is a pointer, and only"),
    "shape": (6, "tile_scores", [(CAST, "d = q.shape[0]")], "`q` is a pointer, which has no .sh"),
    "stride": (6, "tile_scores", [(CAST, "d = q.stride(0)")], "`q` is a pointer, which has no .s"),
    "misspelt": (6, "matmul", [(ZEROS, "load_tiel(a)")], "and `load_tile` is: is that what you"),
    "elsewhere": (6, "matmul", [(ZEROS, "fetch(a)")], "copy it into this file if it belongs to"),
    "brackets": (6, "copy_tiles", [(BOTH, "rows[:, None] < n_rows & cols[None, :] < n_cols")],
                 "put each comparison into brackets"),
    "and": (6, "copy_tiles", [(BOTH, BOTH.replace("&", "and"))], "`and` keeps one of the two"),
    "another stride": (6, "copy_tiles", [("None] * stride_row", "None] * n_cols")],
                       "move by 64, and `x` has the strides 32 and 1: which stride is meant?"),
    "another start": (5, "row_softmax", [("row * out_row", "row * x_row")],
                      "...: how is its start worked out?"),
    "half a mask": (6, "copy_tiles", [(BOTH, "rows[:, None] < n_rows")],
                    "the mask asks about one axis of the tile only"),
    "the other half": (6, "copy_tiles", [(BOTH, "cols[None, :] < n_cols")],
                       "the mask asks about one axis of the tile only"),
    "no return": (6, "copy_tiles", [("return tl.load(", "tile = tl.load(")],
                  "Next: load_tile returned nothing: does it end with `return`?"),
    "tl.max of two": (5, "long_logsumexp", [("tl.maximum(m, ", "tl.max(m, ")],
                      "of two values take tl.maximum(a, b)."),
    "rows[0]": (8, "split_attention", [("tile * BLOCK_Q + n_k - n_q", "rows[0] + n_k - n_q")],
                "no single number can be taken out of a tile"),
    "too small": (6, "mended_total", [("tl.atomic_add(out,", "tl.store(out + tl.program_id(0),")],
                  "`out` has 1 element, and program (1, 0, 0) is at number 1: is `out` to be"),
    "no mask": (5, "vector_add", [("total, mask=mask", "total")],
                "If none is, which of them is a mask to leave out in program (4, 0, 0)?"),
    "mask too long": (5, "vector_add", [("offsets < n ", "offsets < n + 1 ")],
                      "the last address that the mask lets through, and no other, lies outside:"),
    "abs": (5, "vector_add", [("total, mask=mask", "abs(total), mask=mask")],
            "Python's `abs` does not work on a tile: write tl.abs(total)."),
    "flip": (5, "vector_add", [(MASK, f"{MASK}\n    offsets = tl.flip(offsets)")],
             "tl.flip wants to know the axis: tl.flip(x, 0) of a row of numbers."),
    "map": (5, "vector_add", [(MASK, f"{MASK}\n    tl.map_elementwise(tl.abs, offsets)")],
            "`tl.map_elementwise` is not in Triton's interpreter, in which a kernel is checked: "),
    "bf16 + 1": (5, "vector_add", [(STORE, STORE.replace("total", "total.to(tl.bfloat16) + 1.0"))],
                 "the interpreter, in which a kernel is checked, cannot compute in bfloat16: "),
    "empty": (8, "choose_tiles", [(">= 2] or left", ">= 2]")], "Next: nothing is left there:"),
}  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS)
@pytest.mark.few(14)
def test_what_is_next_names_what_stands_in_the_kernel(slip):
    lesson, name, changes, says = SLIPS[slip]
    report = changed(lesson, name, *changes)
    assert not report.passed
    (line,) = [line for line in report.lines if line.startswith("Next: ")]
    assert says in line, report.text()
    assert line.endswith((".", "?"))
    assert not line.endswith("?.")


def test_what_the_interpreter_cannot_compute_is_told_by_name():
    """Before, bits were multiplied as numbers, and what gave None was an error somewhere later."""
    square = STORE.replace("total", "total.to(tl.bfloat16) * total.to(tl.bfloat16)")
    found = words_of(changed(5, "vector_add", (STORE, square)))
    assert "gets silently wrong (it multiplies the raw bits as integers): compute in float" in found
    imported = ("import triton\n", "import triton\nfrom triton.language.extra import libdevice\n")
    tanh = STORE.replace("total", "libdevice.tanh(total)")
    found = words_of(changed(5, "vector_add", imported, (STORE, tanh)))
    assert "`libdevice.tanh` is not in Triton's interpreter, in which a kernel is checked" in found


def test_a_few_of_the_addresses_are_told():
    found = words_of(changed(5, "vector_add", ("total, mask=mask", "total")))
    assert (
        "elements 70, 71, 72, ..., and it has 0 to 69; no mask leaves any of the 16 out." in found
    )


def test_an_access_in_a_helper_is_told_with_the_line_that_called_it():
    """The negative first key stands in the loop's bound, and not in `load_tile`."""
    found = words_of(changed(8, "split_attention", ("tl.maximum(tile", "(tile"), ("1, 0))", "1))")))
    assert "called by: k_tile = load_tile(k, keys, n_k, HEAD_DIM)" in found


def test_no_other_word_is_said_of_a_right_mask_or_a_right_cast():
    """`&` with brackets, and a NumPy constant, are no mistakes: nothing is said of them."""
    constant = ('other=float("-inf")', "other=-np.inf")
    report = changed(5, "row_softmax", NUMPY, constant, ("tl.exp(s -", "tl.exp(undefined_one -"))
    assert "NumPy" not in report.text()
    report = changed(6, "copy_tiles", ("None] * stride_row", "None] * n_cols"))
    assert "brackets" not in report.text()


def test_a_table_of_numbers_in_a_message_is_left_out():
    report = changed(6, "tile_scores", (CAST, "q_tile = q_tile.to(k.dtype)"))
    assert "cannot cast [...] to" in words_of(report)


def test_a_number_that_a_loop_makes_a_float_is_started_with_a_point():
    """Tiles are not known yet in lesson 05, where `l_sum = 0` is written."""
    said = "Loop-carried variable l has initial type int32 but is re-assigned to fp32 in loop"
    assert explain(said).endswith("start it with a point, as 0.0 and not 0")


def test_print_is_told_the_form_that_compiles():
    """`print("tile", tile)` compiles for a GPU; without the text, or with an f-string, it fails."""
    assert 'print("name", tensor)' in explain("AssertionError: 1 is not string")
    assert "device_print" not in explain("Cannot evaluate f-string containing non-constexpr")
