"""What the student's process says that it launches: looked at before anybody else sees it."""

from __future__ import annotations

import math
from typing import Any

from course_lib.child.codec import BadFrame
from course_lib.judging.provenance import leaves, tree_of
from course_lib.sandbox.kernel_source import MAX_SOURCE

MOST_PROGRAMS = 1 << 16  # of one launch
MOST_TENSORS, MOST_ELEMENTS = 64, 1 << 24  # of one launch, elements of all its tensors together
_PLAIN = (bool, int, float, str, type(None))


def clean_launch(launch: Any) -> dict[str, Any]:
    """Return a launch with the fields it must have and no others. Raises BadFrame."""
    try:
        grid = [int(n) for n in launch["grid"]]
        args, options = dict(launch["args"]), dict(launch["options"])
        names = [launch["source"], launch["name"], *args, *options]
    except (KeyError, OverflowError, TypeError, ValueError):
        raise BadFrame("a launch without its parts") from None
    for key, value in args.items():
        _check_argument(str(key), value)
    if not all(isinstance(x, str) for x in names) or not 1 <= len(grid) <= 3:
        raise BadFrame("a launch with strange names or a strange grid")
    if len(launch["source"]) > MAX_SOURCE or tree_of(launch["source"]) is None:
        raise BadFrame("a launch of what is no Python, or is too long")
    if min(grid) < 0 or math.prod(grid) > MOST_PROGRAMS:
        raise BadFrame(f"a launch of more than {MOST_PROGRAMS} programs")
    sizes = [value.numel() for _, value in leaves(args) if hasattr(value, "data_ptr")]
    if len(sizes) > MOST_TENSORS or sum(sizes) > MOST_ELEMENTS:
        raise BadFrame(f"a launch with over {MOST_TENSORS} tensors or {MOST_ELEMENTS} elements")
    options = {k: v for k, v in options.items() if isinstance(v, int)}
    fields = {"source": launch["source"], "name": launch["name"], "grid": grid}
    return {**fields, "args": args, "options": options}


def _check_argument(key: str, value: Any) -> None:
    """Raise BadFrame unless this is a plain value, a tensor, a descriptor, or a tuple of them."""
    import torch

    if isinstance(value, dict) and "pointers" in value:
        _check_pointers(key, value["pointers"])
    elif isinstance(value, dict):
        parts = value.get("descriptor")
        base, *numbers = parts if isinstance(parts, tuple) and parts else (None,)
        whole = all(isinstance(n, list) and all(isinstance(i, int) for i in n) for n in numbers)
        if len(numbers) != 3 or not isinstance(base, torch.Tensor) or not whole:
            raise BadFrame(f"the launch argument {key!r} is no descriptor")
    elif isinstance(value, tuple):
        for item in value:
            _check_argument(key, item)
    elif not isinstance(value, (*_PLAIN, torch.Tensor, torch.dtype)):
        raise BadFrame(f"the launch argument {key!r} is a {type(value).__name__}")


def _check_pointers(key: str, parts: Any) -> None:
    """Raise BadFrame unless this is what a tensor of addresses is told as (`pointer_tables`)."""
    import torch

    targets, offsets, shape = parts if isinstance(parts, tuple) and len(parts) == 3 else ((),) * 3
    places = [targets, offsets, shape]
    whole = [isinstance(x, kind) for x, kind in zip(places, (tuple, list, list), strict=True)]
    if not all(whole) or not all(isinstance(n, int) for n in (*offsets, *shape)):
        raise BadFrame(f"the launch argument {key!r} is no table of pointers")
    inside = len(targets) == len(offsets) == math.prod(shape) and all(
        isinstance(x, torch.Tensor) and 0 <= at < x.untyped_storage().nbytes()
        for x, at in zip(targets, offsets, strict=False)
    )
    if not inside or min(shape, default=1) < 0:
        raise BadFrame(f"the launch argument {key!r} points nowhere")
