"""Triton's compiler speaks of types and blocks; a student needs to hear what to change.

`explain` turns the messages of the known traps (kernels that pass in the interpreter and do not
compile for a GPU, lesson 06) into sentences. What it does not know it passes on as it is. The
interpreter raises some of the same messages.
"""

from __future__ import annotations

import ast
import re

from course_lib.child.kernel_slips import two_dtypes

COMPILED = "It compiles for sm_80, but there it is another kernel:"  # what differs is said next
NOT_ATTEMPTED = "not attempted"

_CARRIED = (
    r"Loop-carried variable (?P<name>\w+) has initial type (?P<old>.+?) but is re-assigned to "
    r"(?P<new>.+?) in loop"
)
_BLOCK = r"<\[(?P<shape>.*?)\], (?P<dtype>\w+)>"

# (pattern in the message, sentence with the pattern's groups); the first match wins
_RULES: tuple[tuple[str, str], ...] = (
    (r"is a promise to the compiler, and here it is not kept",
     "the compiler takes a hint for true, and on a GPU loads other addresses where it is false: "
     "promise only what holds in every call, or nothing"),
    (r"'int' object is not iterable(?=[\s\S]*boundary_check)",
     "`boundary_check` wants a tuple, and (1) is a number: write (1,), with a comma"),
    (r"PassManager::run failed(?=[\s\S]*\bwhile\b)(?=[\s\S]*(block_ptr|descriptor))",
     "a block pointer (or a descriptor) cannot be carried through `while` (the compiler says "
     "only PassManager::run failed): use `for start in range(...)`, or plain pointers"),
    (r"'torch.dtype' object has no attribute",
     "a dtype of torch stands in a kernel: a cast there is .to(tl.float16), or .to(v.dtype) of "
     "a tile"),
    (r"Expected dtype \[.*\] but got (?P<got>\w+)",
     "this function takes float32 only, and got {got}: cast with .to(tl.float32) first"),
    (r"unsupported AST node type: Break",
     "`break` does not exist on a GPU: put the condition into the loop's bound, or mask"),
    (r"unsupported AST node type: Continue",
     "`continue` does not exist on a GPU: put the condition into the loop's bound, or mask"),
    (r"unsupported AST node type: (?P<node>\w+)",
     "this piece of Python ({node}) does not exist in a kernel"),
    (r"is not string|Cannot evaluate f-string",
     'on a GPU `print` takes a plain text first: print("name", tensor); or remove it'),
    (r"object has no attribute append|.append. is not in list",
     "a list cannot grow in a kernel: keep one accumulator (tl.zeros) and add to it"),
    (r"only tuple comprehensions are supported",
     "a list comprehension does not exist in a kernel: use a loop and an accumulator"),
    (r"Input shapes should have M >= (?P<m>\d+), N >= (?P<n>\d+) and K >= (?P<k>\d+)",
     "this `tl.dot` of (M, K) and (K, N) is too small (needed: M >= {m}, N >= {n}, K >= {k}): "
     "fill the short side up with zeros"),
    (r"Cannot access global variable (?P<name>\w+)",
     "a kernel cannot read the global variable `{name}`: pass it as an argument, or write "
     "{name} = tl.constexpr(...)"),
    (r"NameError\('(?P<name>\w+) is not defined'\)",
     "`{name}` is not defined at this point: a missing import, a misspelt name, or a variable "
     "that is only assigned inside a loop or an `if`"),
    (r"range must be a power of 2",
     "`tl.arange` needs a power of two: take the next one and mask what is too much"),
    (r"arange's arguments must be of type tl.constexpr(?=[\s\S]*\barange\(\s*(?!0\s*,))",
     "`tl.arange` takes constants: write start + tl.arange(0, BLOCK)"),
    (r"arange's arguments must be of type tl.constexpr",
     "the bounds of `tl.arange` must be known when compiling: declare the parameter as "
     "tl.constexpr"),
    (r"Shape element \d+ must have type `constexpr",
     "a tile's shape must be known when compiling: declare its sizes as tl.constexpr"),
    (r"incompatible dimensions at index[\s\S]*\btl\.softmax\(",
     "`tl.softmax` keeps no axis of its maxima and sums, so that they do not meet the tile: "
     "write its lines out, and make columns of both, x[:, None]"),
    (r"incompatible dimensions at index \d+: (?P<a>\d+) and (?P<b>\d+)",
     "tiles of {a} and of {b} elements meet in one expression and do not broadcast: x[:, None] "
     "makes a column of x, x[None, :] a row"),
    (r"must have (equal|the same) reduction|not compatible for matmul",
     "the inner sizes of `tl.dot` differ: is a tl.trans missing, or is one too many?"),
    (r"operands must be same dtype. Got (?P<a>\w+) and (?P<b>\w+)",
     "`tl.dot` got {a} and {b}: cast one to the other's dtype, a.to(b.dtype) of two tiles a, b"),
    (r"'int' and 'NoneType'(?=[\s\S]*\bflip\()",
     "tl.flip wants to know the axis: tl.flip(x, 0) of a row of numbers"),
    (r"InterpreterBuilder' object has no attribute 'new_block'",
     "`tl.map_elementwise` is not in Triton's interpreter, in which a kernel is checked: "
     "compute both sides for the whole tile, and choose with tl.where"),
    (r"InterpreterBuilder' object has no attribute 'get_bf16'",
     "the interpreter, in which a kernel is checked, cannot compute in bfloat16: compute in "
     "float32, x.to(tl.float32)"),
    (r"unsupported tensor index",
     "a single element of a tile cannot be picked on a GPU: mask and reduce (tl.sum) instead"),
    (r"__setitem__ is not supported",
     "a tile cannot be changed in place on a GPU: build the new one with tl.where"),
    (r"Boolean value of Tensor with more than one value",
     "`if` needs one value, not a tile: use tl.where to choose element by element"),
    (r"loop body should only have one block",
     "`return` inside a loop does not exist on a GPU: use a mask or the loop's bound"),
    (r"Unsupported function referenced: <[a-z -]*?(?P<what>\w+)( of| at|>)",
     "a kernel can call only triton.language and @triton.jit functions, not `{what}`"),
)  # fmt: skip


# name of a mistake -> a piece of its sentence
_NAMES = {
    "a false hint to the compiler": "takes a hint for true",
    "the inner sizes of tl.dot differ": "the inner sizes of `tl.dot` differ",
    "two dtypes meet in tl.dot": "`tl.dot` got",
    "another dtype where float32 is wanted": "takes float32 only",
    "a torch dtype in a kernel": "a dtype of torch",
    "boundary_check is no tuple": "`boundary_check` wants a tuple",
    "a block pointer in `while`": "cannot be carried through `while`",
    "a function of NumPy's or PyTorch's in a kernel": "takes its functions from triton.language",
    "Python's sum or max of a tile": "does not work on a tile",
    "a pointer taken for an array": "is a pointer, no array",
    "the dtype of a pointer": "the type of an address",
    "a pointer asked for its shape": "is a pointer, which has no",
    "a pointer where numbers are meant": "is a pointer, and only whole numbers",
    "the shape is no tuple": "is one tuple, in brackets of its own",
    "two shapes that do not broadcast": "do not broadcast",
    "softmax is not written out": "`tl.softmax` keeps no axis",
}


def explain(message: str, line: str = "") -> str:
    """Return one sentence (no full stop) for a compiler message; unknown ones stay as they are.

    ``line`` is the student's, or all of their program, where the compiler names no line.
    """
    if found := re.search(r"operands must be same dtype. Got (\w+) and (\w+)", message):
        return two_dtypes(found[1], found[2], line)
    if known := known_trap(f"{message}\n{line}"):
        return known
    return re.sub(r"^\w+\((['\"])(.*)\1\)$", r"\2", message.strip().split("\n")[-1]).rstrip(".")


def known_trap(message: str) -> str:
    """Return one sentence (no full stop) for a message of Triton's that is known, else nothing."""
    if carried := re.search(_CARRIED, message):
        return _explain_carried(**carried.groupdict())
    for pattern, sentence in _RULES:
        if found := re.search(pattern, message):
            return sentence.format(**found.groupdict())
    return ""


def name_of_trap(sentence: str) -> str:
    """Return the name of the mistake that a sentence of `known_trap` is about, if it has one."""
    return next((name for name, piece in _NAMES.items() if piece in sentence), "")


def carried_variable(message: str) -> str | None:
    """Return the variable of a "loop-carried" message, None for any other message."""
    found = re.search(_CARRIED, message)
    return found["name"] if found else None


def _explain_carried(name: str, old: str, new: str) -> str:
    before, after = re.fullmatch(_BLOCK, old), re.fullmatch(_BLOCK, new)
    if after and not before:
        shape = tuple(map(int, re.findall(r"\d+", after["shape"])))
        return (
            f"`{name}` starts as a plain number and becomes a tile in the loop, and on a GPU a "
            f"variable keeps one type: start it with tl.zeros or tl.full, shape {shape}, "
            "tl.float32"
        )
    if before and after and before["shape"] == after["shape"]:
        return (
            f"`{name}` starts as {before['dtype']} and becomes {after['dtype']} in the loop, and "
            f"on a GPU a variable keeps one type: {_one_type(before['dtype'], after['dtype'])}"
        )
    if before and after:
        return (
            f"`{name}` changes its shape in the loop, from ({_sizes(before)}) to "
            f"({_sizes(after)}): start it with the shape it will have"
        )
    whole = old.startswith(("int", "uint")) and new.startswith(("fp", "bf"))
    start = "a point, as 0.0 and not 0" if whole else "the type that it ends with"
    return (
        f"`{name}` starts as {old} and becomes {new} in the loop, and on a GPU a variable keeps "
        f"one type: start it with {start}"
    )


def _one_type(before: str, after: str) -> str:
    if after == "fp32":  # what tl.dot gives, and what sums need
        return "start it with tl.float32"
    return f"what is added to it must stay {before}, or it must start as {after}"


def _sizes(block: re.Match) -> str:
    return ", ".join(re.findall(r"\d+", block["shape"]))


def first_assignment(source: str, name: str) -> int | None:
    """Return the line (from 1) of the first assignment to ``name`` in ``source``, or None."""
    lines = [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    ]
    return min(lines, default=None)
