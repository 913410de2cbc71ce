"""The slips of the forward pass, in exercises that go there and back: lesson 07's, named by o.

Where o is wrong, its gradients are of another function, and nobody asks how wrong they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from course_lib.judging.misconceptions import attention_mistakes
from course_lib.judging.misread import Model
from course_lib.judging.spec import Mistake
from course_lib.judging.tolerance import same

Onward = Callable[..., Callable[[Any, Any], tuple[Any, ...]]]
"""``onward(*inputs, **how)`` returns a function of o and lse: the whole answer of somebody who got
these in the forward pass, and whose backward is right. It raises where nobody knows that."""


@dataclass(frozen=True)
class ThereAndBack:
    """The answer of somebody with a slip in the forward pass. Raises where ``onward`` does."""

    there: Model
    onward: Onward

    def __call__(self, *inputs: Any, **how: Any) -> Any:
        """Return the whole answer to a call."""
        return self.with_twins(*inputs, **how)[0]

    def with_twins(
        self, q: Any, k: Any, v: Any, *later: Any, **how: Any
    ) -> tuple[Any, list[ThereAndBack]]:
        """Return it, and the models that are known to give the same one."""
        whole = self.onward(q, k, v, *later, **how)
        (o, lse), twins = self.there.with_twins(q, k, v, **{"block_q": 64, "block_k": 64} | how)
        return whole(o, lse), [ThereAndBack(twin, self.onward) for twin in twins]

    def as_called(self, **how: Any) -> ThereAndBack:
        """Return the model whose answer to a call with these arguments is this one's, too."""
        there = self.there.as_called(**{"block_q": 64, "block_k": 64} | how)
        return ThereAndBack(there, self.onward)


def forward_mistakes(onward: Onward) -> tuple[Mistake, ...]:
    """Return the known mistakes of a forward pass, told by what ``onward`` makes of them."""
    return tuple(
        Mistake(one.name, one.says, ThereAndBack(one.model, onward))  # type: ignore[arg-type]
        for one in attention_mistakes(with_lse=True, dtype=np.float32)
    )


def as_far_as_right(result: Any, truth: tuple[Any, ...], first: int) -> Any:
    """Return an answer, of which nothing but the ``first`` is looked at if one of these is wrong.

    ``truth`` is the right answer: what is not looked at is taken for right.
    """
    if not isinstance(result, tuple) or len(result) != len(truth):
        return result
    if same(result[:first], truth[:first]):
        return result
    return (*result[:first], *truth[first:])
