"""Reference evaluation of plans on NumPy, for the verifier: bodies are run element by element.

Values have a dimension for each iteration axis, of extent 1 if they do not vary along it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np

from ..ir.differential_test import MOST_ELEMENTS, TooLarge
from ..ir.dims import Extents, evaluate
from ..ir.interp import cast, stepped, viewed
from ..ir.interp_scatter import merge_at
from ..ir.ops import OPS
from ..ir.types import DTYPES, DType, numpy_dtype
from ..ir.verify import require
from .instruction import Instruction
from .phase import Body, Reduction, Scatter, Store
from .plan import ArrayUse, KernelPlan, Plan, ScalarUse

Known = dict[str, np.ndarray]
Key = tuple[str, int]
ALIGNED = 64  # bytes: alignment of arrays


@dataclass(frozen=True)
class PlanCall:
    """Extents, arrays and numbers of one call."""

    extents: Extents
    arrays: Mapping[Key, np.ndarray]
    numbers: Sequence


class FlatMemory:
    """Arrays of a call in one flat memory, so that addresses are integers."""

    def __init__(self, plan: Plan, call: PlanCall):
        self.extents = extents = call.extents
        types = {("temporary", k): t for k, t in enumerate(plan.temporaries)}
        types |= {("result", k): t for k, t in enumerate(plan.results)}
        shapes = {key: tuple(evaluate(d, extents) for d in t.shape) for key, t in types.items()}
        kinds = {key: numpy_dtype(t.dtype) for key, t in types.items()}
        given = {key: x for key, x in call.arrays.items() if isinstance(x, np.ndarray)}
        shapes |= {key: x.shape for key, x in given.items()}
        kinds |= {key: x.dtype for key, x in given.items()}
        offsets, end = {}, ALIGNED
        for key, shape in shapes.items():
            offsets[key] = end
            end += -(-prod(shape) * kinds[key].itemsize // ALIGNED) * ALIGNED + ALIGNED
        self.bytes = np.full(end, 0xFF, np.uint8)  # NaN where nothing is stored
        self.arrays: dict[Key, np.ndarray] = {}
        for key, shape in shapes.items():
            part = self.bytes[offsets[key] : offsets[key] + prod(shape) * kinds[key].itemsize]
            self.arrays[key] = part.view(kinds[key]).reshape(shape)
            if key in given:
                self.arrays[key][...] = given[key]

    def view(self, use: ArrayUse) -> np.ndarray:
        """An array as a kernel sees it."""
        x = self.arrays[use.kind, use.index]
        for kind, how in use.views:
            x = viewed(x, kind, how, self.extents)
        return x

    def address(self, x: np.ndarray) -> int:
        """Address of a view's first element."""
        return x.__array_interface__["data"][0] - self.bytes.__array_interface__["data"][0]

    def fetch(self, d: DType, address: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Elements at some addresses; 0 where the predicate is false."""
        address, wanted = np.broadcast_arrays(address, wanted)
        size = numpy_dtype(d).itemsize
        inside = (address >= 0) & (address + size <= self.bytes.size)
        require(bool((inside | ~wanted).all()), "what is fetched is inside of memory", d)
        at = np.where(wanted, address, 0)[..., None] + np.arange(size)
        values = np.ascontiguousarray(self.bytes[at]).view(numpy_dtype(d))[..., 0]
        return np.where(wanted, values.astype(numpy_dtype(d.compute)), numpy_dtype(d.compute).type(0))


# -- bodies


def _converted(d: DType) -> Callable:
    return lambda x: np.asarray(x).astype(numpy_dtype(d))


def _rounded(d: DType) -> Callable:
    return lambda x: cast(np.asarray(x), d).astype(numpy_dtype(d.compute))


def _quotient(x, divisor, scale, inverse):
    return x * scale / divisor


WORDS: dict[str, Any] = {name: op.meaning for name, op in OPS.items()}
WORDS |= {"select": np.where, "not_": np.logical_not, "inf": np.inf, "nan": np.nan}
WORDS |= {"shift_left": OPS["left_shift"].meaning, "shift_right": OPS["right_shift"].meaning}
WORDS |= {"mul_rn": np.multiply}  # a product that is rounded before it is added
WORDS |= {"quotient": _quotient, "divisor_scale": np.ones_like, "bool_": lambda x: np.asarray(x).astype(bool)}
WORDS |= {name: _converted(d) for name, d in DTYPES.items() if d.compute is d}
WORDS |= {f"{name}_round": _rounded(d) for name, d in DTYPES.items() if d.kind == "f"}
WORDS |= {f"saturate_{name}": lambda x, d=d: cast(np.asarray(x), d) for name, d in DTYPES.items() if d.kind in "iu"}


@cache
def _compiled(i: Instruction) -> Any:
    return compile(i.expression, str(i), "eval")


def evaluate_body(body: Body, known: Mapping[str, Any], words: dict[str, Any] = WORDS) -> Known:
    """The values of a body's arguments and of all its instructions."""
    own: Known = {v.name: known[v.name] for v in body.args}
    for i in body.instructions:
        own[i.target] = eval(_compiled(i), words, own)
    return own


class KernelRun:
    """Evaluation of one kernel: values of elements and rows, over `axes` of these extents."""

    def __init__(self, kernel: KernelPlan, memory: FlatMemory, numbers: Sequence):
        self.kernel, self.memory, self.numbers = kernel, memory, numbers
        self.axes = tuple(evaluate(d, memory.extents) for d in (*kernel.rows, *kernel.columns, *kernel.ranks))
        self.rows = tuple(range(len(kernel.rows)))
        self.columns = tuple(range(len(kernel.rows), len(kernel.rows) + len(kernel.columns)))
        self.ranks = tuple(range(len(kernel.rows) + len(kernel.columns), len(self.axes)))
        self.words = WORDS | {f"fetch_{d.name}": lambda a, w, d=d: memory.fetch(d, a, w) for d in DTYPES.values()}
        self.part = slice(0, self.axes[self.columns[0]] if self.columns else 1)  # of the first column axis
        self.known: Known = {}
        if prod(max(n, 1) for n in self.axes) > MOST_ELEMENTS:
            raise TooLarge

    def read(self) -> None:
        """Loads, indices, addresses and numbers of the current part."""
        for load in self.kernel.loads:
            use = self.kernel.arrays[load.operand]
            x = self.memory.view(use)
            x = x[self.indices(use)] if use.at else self.single(x)
            self.known[load.value.name] = x.astype(numpy_dtype(load.value.dtype))
        for p in self.kernel.positions:
            self.known[p.value.name] = self.line(p.axis).astype(numpy_dtype(p.value.dtype))
        for pointer in self.kernel.pointers:
            x = self.memory.view(self.kernel.arrays[pointer.operand])
            self.known[pointer.value.name] = self.single(self.memory.address(x))
        for s in self.kernel.scalars:
            self.known[s.value.name] = self.single(self._number(s)).astype(numpy_dtype(s.value.dtype))

    def _number(self, s: ScalarUse) -> Any:
        if s.kind == "argument":
            return self.numbers[s.source]
        if s.kind == "extent":
            return evaluate(s.source, self.memory.extents)
        if s.kind == "literal":
            return np.array([s.source], np.int64).view(numpy_dtype(s.value.dtype))[0]
        array, axis = s.source
        return self.memory.view(self.kernel.arrays[array]).strides[axis]

    def single(self, x: Any) -> np.ndarray:
        """A number as a value that does not vary."""
        return np.asarray(x).reshape((1,) * len(self.axes))

    def line(self, axis: int) -> np.ndarray:
        """Indices on an axis in the current part, along its dimension."""
        positions = np.arange(self.axes[axis])
        positions = positions[self.part] if self.columns and axis == self.columns[0] else positions
        return positions.reshape([-1 if a == axis else 1 for a in range(len(self.axes))])

    def indices(self, use: ArrayUse) -> tuple[np.ndarray, ...]:
        """Indices of an array's elements, along each of its axes."""
        indices = []
        for c, count in zip(use.at, self.memory.view(use).shape):
            start = evaluate(c.start, self.memory.extents)
            index = self.single(start) if c.axis is None else stepped(start, c.step, self.line(c.axis))
            inside = not index.size or (index.min() >= 0 and index.max() < count)
            require(inside, "an element is inside of its array", self.kernel.name, use)
            indices.append(index)
        return tuple(indices)

    def body(self, body: Body | None) -> list[np.ndarray]:
        """Evaluate a body; its results are known afterwards."""
        if body is None:
            return []
        own = evaluate_body(body, self.known, self.words)
        results = [self._shaped(own[v.name]).astype(numpy_dtype(v.dtype)) for v in body.results]
        self.known |= {v.name: x for v, x in zip(body.results, results)}
        return results

    def _shaped(self, x: Any) -> np.ndarray:
        x = np.asarray(x)
        return x if x.ndim == len(self.axes) else self.single(x)

    # -- folds

    def over(self, x: np.ndarray, axes: Sequence[int]) -> np.ndarray:
        """A value broadcast along some axes."""
        whole = [self.line(a).size if a in axes else x.shape[a] for a in range(len(self.axes))]
        return np.broadcast_to(x, whole)

    def identity(self, use: Reduction) -> list[np.ndarray]:
        """Identity of a reduction."""
        values = (self.single(eval(text, self.words)) for text in use.identity)
        return [x.astype(numpy_dtype(v.dtype)) for x, v in zip(values, use.accumulators)]

    def merged(self, use: Reduction, a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Two states combined."""
        merge = use.combine
        own: Known = {v.name: x for v, x in zip(merge.args, (*a, *b))}
        for i in merge.instructions:
            own[i.target] = eval(_compiled(i), self.words, own)
        return [np.asarray(own[v.name]).astype(numpy_dtype(v.dtype)) for v in merge.results]

    def folded(self, use: Reduction, axes: Sequence[int]) -> list[np.ndarray]:
        """State of all elements along some axes: neighbours are combined until one is left."""
        states = [self.over(self.known[v.name], axes) for v in use.inputs]
        others = [a for a in range(len(self.axes)) if a not in axes]
        shapes = np.broadcast_shapes(*(x.shape for x in states))
        states = [np.broadcast_to(x, shapes).transpose([*others, *axes]) for x in states]
        outer, count = [shapes[a] for a in others], prod(shapes[a] for a in axes)
        nothing = [np.broadcast_to(x.reshape((1,) * (len(outer) + 1)), (*outer, 1)) for x in self.identity(use)]
        states = [np.concatenate([x.reshape((*outer, count)), none], -1) for x, none in zip(states, nothing)]
        while states[0].shape[-1] > 1:
            count = states[0].shape[-1]
            pairs = [[x[..., k : count - count % 2 : 2] for x in states] for k in (0, 1)]
            odd = [x[..., count - count % 2 :] for x in states]
            states = [np.concatenate([m, o], -1) for m, o in zip(self.merged(use, *pairs), odd)]
        shape = [1 if a in axes else shapes[a] for a in range(len(self.axes))]
        return [x.reshape(shape) for x in states]

    # -- stores

    def scatter(self, scatter: Scatter) -> None:
        """Merge the values of all elements at their flat indices."""
        indices, values = (self.over(self.known[name], self.columns) for name in (scatter.flat_index, scatter.value))
        merge_at(scatter.fold, self.memory.view(self.kernel.arrays[scatter.operand]), indices, values)

    def store(self, store: Store) -> None:
        """Write a value to its output."""
        use = self.kernel.arrays[store.operand]
        view, x = self.memory.view(use), self.known[store.value]
        where = self.indices(use)
        shape = np.broadcast_shapes(*(flat_index.shape for flat_index in where), (1,) * len(self.axes))
        along = [a for a, n in enumerate(x.shape) if n not in (1, shape[a])]
        require(not along, "what is stored is the same along other axes", self.kernel.name, use, along)
        x = np.broadcast_to(x, shape).astype(view.dtype)
        if use.at:
            view[where] = x
        else:
            view[...] = x.reshape(())
