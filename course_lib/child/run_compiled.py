"""Run a compiled kernel on the CPU: what Triton's frontend made of its source, program by program.

The interpreter runs a kernel's source as Python. A kernel that asks which of the two it is in can
do its work there alone (`if n == 1`, where n is a constant for the compiler); here it is seen
doing nothing. What only a GPU does otherwise is not: its exp2, the order of its sums, TF32.
Longer than 400 lines because one machine does all that is of memory, programs and regions.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np

from course_lib.child import ttir_ops
from course_lib.child.ttir import Block, Env, NotUnderstood, Op, Region, Step, Type, read

_IGNORED = {"tt.print", "gpu.barrier", "ttg.barrier"}
_LEAVES = {"scf.yield", "tt.return", "tt.reduce.return", "tt.scan.return", "scf.condition"}
_AXES = {"x": 0, "y": 1, "z": 2}


class LeftItsTensors(Exception):
    """A compiled kernel touches memory that belongs to none of its tensors."""


class PromiseBroken(Exception):
    """A compiled kernel assumes, or asserts, what does not hold: there it may do anything."""


class Memory:
    """The memory of a launch's tensors, found by address."""

    def __init__(self, tensors: Iterable[Any]) -> None:
        self._rooms: list[tuple[int, int, np.ndarray]] = []
        storages = {t.untyped_storage().data_ptr(): t.untyped_storage() for t in tensors}
        for start, storage in sorted(storages.items()):
            if size := storage.nbytes():
                room = (ctypes.c_uint8 * size).from_address(start)
                self._rooms.append((start, start + size, np.frombuffer(room, np.uint8)))

    def load(self, addresses: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Return what stands at these addresses, one axis of them."""
        out = np.empty(addresses.shape, dtype)
        for chosen, numbers, places in self._at(addresses, dtype):
            out[chosen] = numbers[places]
        return out

    def store(self, addresses: np.ndarray, values: np.ndarray) -> None:
        """Store values at these addresses, one axis of each; of two at one the last stays."""
        for chosen, numbers, places in self._at(addresses, values.dtype):
            numbers[places] = values[chosen]

    def _at(self, addresses: np.ndarray, dtype: np.dtype) -> Iterable[tuple[Any, np.ndarray, Any]]:
        """Yield for each tensor that is met: which addresses, its numbers, and places in them."""
        if not addresses.size:
            return
        size, found = dtype.itemsize, 0
        low, high = int(addresses.min()), int(addresses.max())
        for start, stop, room in self._rooms:
            if high < start or low >= stop:
                continue
            inside: Any = slice(None)
            if low < start or high + size > stop:
                inside = (addresses >= start) & (addresses + size <= stop)
            places = addresses[inside] - start
            first = int(places[0] % size) if places.size else 0
            if (places % size != first).any():
                raise LeftItsTensors
            whole = room[first : first + (len(room) - first) // size * size]
            found += places.size
            yield inside, whole.view(dtype), places // size
        if found < addresses.size:
            raise LeftItsTensors


class Machine:
    """A compiled module, ready to run: ``text`` is Triton's IR. Raises NotUnderstood."""

    def __init__(self, text: str) -> None:
        self._functions = read(text)
        self._kernel = next(name for name, one in self._functions.items() if one.is_kernel)
        self._ready: dict[str, Callable[[Env], Any]] = {}
        self._memory = Memory(())
        self._program: tuple[int, ...] = (0, 0, 0)
        self._grid: tuple[int, ...] = (1, 1, 1)
        for name, function in self._functions.items():
            self._ready[name] = self._region(function.body)

    @property
    def types(self) -> list[Type]:
        """The types of the kernel's arguments."""
        return self._functions[self._kernel].types

    def run(self, grid: Sequence[int], values: Sequence[Any], tensors: Any) -> None:
        """Run every program of a launch on ``values``: numbers, and tensors for addresses.

        Raises NotUnderstood and LeftItsTensors.
        """
        function = self._functions[self._kernel]
        if len(values) != len(function.types):
            raise NotUnderstood("its arguments")
        given = [_given(v, t) for v, t in zip(values, function.types, strict=True)]
        self._memory = Memory(tensors)
        self._grid = (*map(int, grid), 1, 1)[:3]
        with np.errstate(all="ignore"):
            for program in product(*map(range, self._grid)):
                self._program = program
                self._ready[self._kernel](dict(zip(function.arguments, given, strict=True)))

    # Regions --------------------------------------------------------------------------------------

    def _region(self, region: Region) -> Callable[[Env], Any]:
        """Return what runs a region in an `Env` that holds its arguments."""
        numbers = {block.label: i for i, block in enumerate(region)}
        blocks = [self._block(block, numbers) for block in region]
        if len(blocks) == 1:
            steps, last = blocks[0][1:]

            def run_one(env: Env) -> Any:
                for step in steps:
                    step(env)
                return last(env)

            return run_one

        def run(env: Env) -> Any:
            n = 0
            while True:
                _, steps, last = blocks[n]
                for step in steps:
                    step(env)
                answer = last(env)
                if not isinstance(answer, _Jump):
                    return answer
                n = answer.to
                env.update(zip(blocks[n][0], answer.values, strict=True))

        return run

    def _block(self, block: Block, numbers: dict[str, int]) -> tuple[list[str], list[Step], Step]:
        ops = [op for op in block.ops if op.name not in _IGNORED]
        last: Step = lambda env: ()  # noqa: E731
        if ops and (ops[-1].name in _LEAVES or ops[-1].name.startswith("cf.")):
            last = _end(ops.pop(), numbers)
        return block.arguments, [self._step(op) for op in ops], last

    def _step(self, op: Op) -> Step:
        special = _SPECIAL.get(op.name)
        f = special(self, op) if special else ttir_ops.function_for(op)
        if (special and op.regions) or op.name == "tt.call":
            return self._structured(op, f)
        operands = op.operands
        if len(op.results) == 1:
            (result,) = op.results
            if len(operands) == 1:
                (only,) = operands

                def one(env: Env) -> None:
                    env[result] = f(env[only])

                return one
            if len(operands) == 2:
                left, right = operands

                def two(env: Env) -> None:
                    env[result] = f(env[left], env[right])

                return two

        def any_number(env: Env) -> None:
            values = f(*[env[name] for name in operands])
            if op.results:
                env.update(
                    zip(op.results, values if len(op.results) > 1 else (values,), strict=True)
                )

        return any_number

    def _structured(self, op: Op, f: Callable[[Env], Sequence[Any]]) -> Step:
        def step(env: Env) -> None:
            env.update(zip(op.results, f(env), strict=True))

        return step

    # Operations that are not of numbers alone ----------------------------------------------------

    def _for(self, op: Op) -> Callable[[Env], Any]:
        body, blocks = self._region(op.regions[0]), op.regions[0]
        head = re.match(r"(?: unsigned)? (%\S+) = (%\S+) to (%\S+) step (%\S+)", op.rest)
        if not head or len(blocks) != 1:
            raise NotUnderstood("a loop")
        counter, *ends = head.groups()
        carried, initial = _carried(op.rest)

        def loop(env: Env) -> list[Any]:
            start, stop, step = (env[name] for name in ends)
            values = [env[name] for name in initial]
            for i in range(int(start), int(stop), int(step)):
                env[counter] = start.dtype.type(i)
                env.update(zip(carried, values, strict=True))
                values = body(env)
            return values

        return loop

    def _while(self, op: Op) -> Callable[[Env], Any]:
        before, after = map(self._region, op.regions)
        carried, initial = _carried(op.rest)
        inside = op.regions[1][0].arguments

        def loop(env: Env) -> Sequence[Any]:
            values = [env[name] for name in initial]
            while True:
                env.update(zip(carried, values, strict=True))
                goes_on, *values = before(env)
                if not goes_on:
                    return values
                env.update(zip(inside, values, strict=True))
                values = after(env)

        return loop

    def _if(self, op: Op) -> Callable[[Env], Any]:
        then, *otherwise = map(self._region, op.regions)
        condition = op.operands[0]

        def choose(env: Env) -> Any:
            if env[condition]:
                return then(env)
            return otherwise[0](env) if otherwise else ()

        return choose

    def _call(self, op: Op) -> Callable[[Env], Any]:
        found = re.match(r" @([^\s(]+)\(", op.rest)
        if not found or found[1] not in self._functions:
            raise NotUnderstood("a call")
        name, arguments = found[1], self._functions[found[1]].arguments
        return lambda env: self._ready[name](
            dict(zip(arguments, (env[one] for one in op.operands), strict=True))
        )

    def _reduce(self, op: Op) -> Callable[[Env], Any]:
        """Halve an axis until one is left: two tiles at once, or a whole axis where that can be."""
        (block,) = op.regions[0]
        axis = ttir_ops.integer_of(op.rest, "axis")
        combine, n = self._combining(op), len(op.operands)
        whole = _only_operation(block)

        def reduce(env: Env) -> list[Any]:
            tiles = [env[name] for name in op.operands]
            if n == 1 and whole and (tiles[0].dtype != np.bool_ or whole in _OF_BITS):
                return [ttir_ops.over_axis(whole, tiles[0], axis)]
            tiles = [np.moveaxis(tile, axis, 0) for tile in tiles]
            while len(tiles[0]) > 1:
                half = len(tiles[0]) // 2
                first, second = [t[:half] for t in tiles], [t[half:] for t in tiles]
                tiles = combine(env, [*first, *second])
            return [tile[0] for tile in tiles]

        return reduce

    def _scan(self, op: Op) -> Callable[[Env], Any]:
        axis = ttir_ops.integer_of(op.rest, "axis")
        backwards = "reverse = true" in op.rest
        combine = self._combining(op)

        def scan(env: Env) -> list[Any]:
            tiles = [np.moveaxis(env[name], axis, 0) for name in op.operands]
            if backwards:
                tiles = [tile[::-1] for tile in tiles]
            seen = [[tile[0] for tile in tiles]]
            for i in range(1, len(tiles[0])):
                seen.append(combine(env, [*seen[-1], *(tile[i] for tile in tiles)]))
            stacked = [np.stack(one) for one in zip(*seen, strict=True)]
            if backwards:
                stacked = [tile[::-1] for tile in stacked]
            return [np.moveaxis(tile, 0, axis) for tile in stacked]

        return scan

    def _combining(self, op: Op) -> Callable[[Env, list[Any]], list[Any]]:
        """Return what an operation's region makes of two rows of tiles."""
        (block,) = op.regions[0]
        run = self._region(op.regions[0])

        def at_once(env: Env, operands: list[Any]) -> list[Any]:
            env.update(zip(block.arguments, operands, strict=True))
            return list(run(env))

        def one_by_one(env: Env, operands: list[Any]) -> list[Any]:
            shape = np.shape(operands[0])
            rows = zip(*(np.ravel(x) for x in operands), strict=True)
            made = zip(*(at_once(env, list(row)) for row in rows), strict=True)
            return [np.array(x).reshape(shape) for x in made]

        return at_once if ttir_ops.no_regions(block.ops) else one_by_one

    def _program_id(self, op: Op) -> Callable[..., Any]:
        axis = _AXES[op.rest.split()[0]]
        return lambda: np.int32(self._program[axis])

    def _programs(self, op: Op) -> Callable[..., Any]:
        axis = _AXES[op.rest.split()[0]]
        return lambda: np.int32(self._grid[axis])

    def _add_to_address(self, op: Op) -> Callable[..., Any]:
        size = ttir_ops.bits_of(op.types[0].to).itemsize
        return lambda addresses, n: addresses + n.astype(np.int64) * size

    def _load(self, op: Op) -> Callable[..., Any]:
        element = op.types[0].to
        bits = ttir_ops.bits_of(element)
        undefined = _undefined(element)

        def load(addresses: Any, mask: Any = None, other: Any = None) -> Any:
            if mask is None:
                found = ttir_ops.decoded(self._memory.load(np.ravel(addresses), bits), element)
                return found.reshape(np.shape(addresses))[()]
            out = np.full(np.shape(addresses), undefined if other is None else other)
            chosen = np.broadcast_to(mask, out.shape)
            found = self._memory.load(np.atleast_1d(addresses[chosen]), bits)
            out[chosen] = ttir_ops.decoded(found, element)
            return out[()]

        return load

    def _store(self, op: Op) -> Callable[..., Any]:
        element = op.types[0].to

        def store(addresses: Any, values: Any, mask: Any = None) -> None:
            addresses, values = np.broadcast_arrays(addresses, values)
            if mask is not None:
                mask = np.broadcast_to(mask, addresses.shape)
                addresses, values = addresses[mask], values[mask]
            self._memory.store(np.ravel(addresses), ttir_ops.encoded(np.ravel(values), element))

        return store

    def _promise(self, op: Op) -> Callable[..., Any]:
        def promise(holds: Any, *more: Any) -> None:
            if not np.all(holds):
                raise PromiseBroken

        return promise

    def _change(self, op: Op) -> Callable[..., Any]:
        """Atomic operations: lane after lane, at once where no two meet."""
        how = op.rest.split(",")[0].strip()
        element = op.source.to
        combine = _ATOMIC[how]

        def change(addresses: Any, values: Any, mask: Any = None) -> Any:
            shape = np.shape(addresses)
            lanes, given = np.ravel(addresses), np.ravel(np.broadcast_to(values, shape))
            out = np.zeros(lanes.shape, given.dtype)
            chosen = np.flatnonzero(np.broadcast_to(True if mask is None else mask, shape))
            alone = len(np.unique(lanes[chosen])) == len(chosen)
            for at in [chosen] if alone else chosen[:, None]:
                old = self._memory.load(lanes[at], ttir_ops.bits_of(element))
                out[at] = ttir_ops.decoded(old, element)
                new = ttir_ops.encoded(combine(out[at], given[at]), element)
                self._memory.store(lanes[at], new)
            return out.reshape(shape)[()]

        return change

    def _exchange_if(self, op: Op) -> Callable[..., Any]:
        element = op.source.to

        def exchange(addresses: Any, compare: Any, values: Any) -> Any:
            shape = np.shape(addresses)
            lanes = np.ravel(addresses)
            old = np.zeros(lanes.shape, ttir_ops.bits_of(element))
            wanted, new = (
                ttir_ops.encoded(np.ravel(np.broadcast_to(x, shape)), element)
                for x in (compare, values)
            )
            for i in range(len(lanes)):
                at = slice(i, i + 1)
                old[at] = self._memory.load(lanes[at], old.dtype)
                if old[i] == wanted[i]:
                    self._memory.store(lanes[at], new[at])
            return ttir_ops.decoded(old, element).reshape(shape)[()]

        return exchange


class _Jump:
    """Where a block goes on, and with what."""

    def __init__(self, to: int, values: list[Any]) -> None:
        self.to, self.values = to, values


def _end(op: Op, numbers: dict[str, int]) -> Step:
    """Return how a block ends: with values, or with a `_Jump`."""
    if op.name in _LEAVES:
        return lambda env: [env[name] for name in op.operands]
    targets = [
        (numbers[label], re.findall(r"%[\w$.-]+(?:#\d+)?", (values or "").partition(" : ")[0]))
        for label, values in re.findall(r"\^(\w+)(?:\(([^)]*)\))?", op.rest)
    ]
    if op.name == "cf.br":
        ((to, names),) = targets
        return lambda env: _Jump(to, [env[name] for name in names])
    if op.name != "cf.cond_br":
        raise NotUnderstood(f"`{op.name}`")
    condition = op.operands[0]

    def jump(env: Env) -> _Jump:
        to, names = targets[0 if env[condition] else 1]
        return _Jump(to, [env[name] for name in names])

    return jump


def _carried(rest: str) -> tuple[list[str], list[str]]:
    """Return the names that a loop carries, and those of what they are at first."""
    pairs = re.findall(r"(%[\w$.-]+) = (%[\w$.-]+(?:#\d+)?)(?=[,)])", rest)
    return [a for a, _ in pairs], [b for _, b in pairs]


_OF_BITS = {"arith.andi", "arith.ori", "arith.xori"}


def _only_operation(block: Block) -> str:
    """Return the one operation of two numbers that a region is, if a whole axis can take it."""
    if len(block.ops) != 2 or block.ops[0].name not in ttir_ops.WHOLE_AXIS:
        return ""
    first, last = block.ops
    plain = sorted(first.operands) == sorted(block.arguments) and last.operands == first.results
    odd = first.types[0].element in ttir_ops.ODD
    return first.name if plain and not odd else ""


def _undefined(element: str) -> Any:
    """Return what undefined lanes hold, as in the interpreter while a ledger counts."""
    dtype = ttir_ops.dtype_of(Type(None, element)) if element[0] != "!" else np.dtype(np.int64)
    if dtype.kind == "f":
        return dtype.type(np.nan)
    return dtype.type(np.iinfo(dtype).max // 3 if dtype.itemsize > 1 else 0)


def _given(value: Any, kind: Type) -> Any:
    if kind.to:
        return np.int64(value.data_ptr() if hasattr(value, "data_ptr") else value)
    if kind.shape is not None or hasattr(value, "data_ptr"):
        raise NotUnderstood("its arguments")
    number = np.array([value]).astype(ttir_ops.dtype_of(kind))
    return ttir_ops.rounded(number, kind.element)[0]


_ATOMIC: dict[str, Callable] = {
    "add": np.add,
    "fadd": np.add,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "max": np.maximum,
    "min": np.minimum,
    "umax": ttir_ops.unsigned_too(np.maximum),
    "umin": ttir_ops.unsigned_too(np.minimum),
    "exch": lambda old, new: new,
}
_SPECIAL: dict[str, Callable[[Machine, Op], Callable]] = {
    "scf.for": Machine._for,
    "scf.while": Machine._while,
    "scf.if": Machine._if,
    "tt.call": Machine._call,
    "tt.reduce": Machine._reduce,
    "tt.scan": Machine._scan,
    "tt.get_program_id": Machine._program_id,
    "tt.get_num_programs": Machine._programs,
    "tt.addptr": Machine._add_to_address,
    "tt.load": Machine._load,
    "tt.store": Machine._store,
    "tt.atomic_rmw": Machine._change,
    "tt.atomic_cas": Machine._exchange_if,
    "tt.assert": Machine._promise,
    "llvm.intr.assume": Machine._promise,
}
