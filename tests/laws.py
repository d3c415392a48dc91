"""What holds for every program: the interpreter, the rewritten graph and a target agree within the derived bound, and
a call leaves alone what is not its own."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from bounds import agrees, evaluate
from draw import Program
from memory import WRITEABLE, again, around, room, root

import fusedsl as fd
from fusedsl.accuracy.products import TF32
from fusedsl.fusion.formulation import ON_CPU, ON_CUDA
from fusedsl.ir.interp import interpret
from fusedsl.ir.types import numpy_dtype
from fusedsl.program.call_steps import extents_of
from fusedsl.rewrite.engine import rewrite
from fusedsl.runtime.arrays import describe_all


@dataclass
class Told:
    """What was compared: elements with a bound, all elements, and the largest share of a bound that an error took."""

    judged: int = 0
    elements: int = 0
    share: float = 0.0


class Case:
    """A program with its graph, its arguments, and what the judge says of its results."""

    def __init__(self, program: Program):
        self.program = program
        self.kernel = fd.kernel(program.text, fallback=False, **program.options)
        self.arguments = [program.arrays[n] for n in self.kernel.params]
        self.graph = self.kernel._program.plans.graph(describe_all(self.kernel.params, self.arguments))
        self.expected = evaluate(self.graph, self.arguments, TF32.get(program.options.get("matmul", "")))

    def tighten(self) -> None:
        """Plan some programs anew, in more kernels, as a call does whose kernels spill registers."""
        times = random.Random(self.program.text).choice((0, 0, 0, 1, 3))
        facts = describe_all(self.kernel.params, self.arguments)
        given = list(facts.values()), extents_of(list(facts.values()))
        for way in (ON_CPU, ON_CUDA):
            for _ in range(times):
                self.kernel._program.plans.replan_after_spill(self.kernel._program.plans.plan(*given, way), *given)

    def compare(self, results: Sequence[np.ndarray], what: str) -> float:
        """Raises AssertionError where a result is not within its bound; the largest share of one."""
        assert len(results) == len(self.expected), what
        types = [r.type.dtype for r in self.graph.results]
        found = zip(results, self.expected, types, self.program.results)
        return max(agrees(made, *known, d, f"{what}, {name}") for made, known, d, name in found)

    def bytes(self) -> list:
        """All memory of the arguments."""
        return [root(a).tobytes() if isinstance(a, np.ndarray) else repr(a) for a in self.arguments]


# the results of a call, written to the outputs that it is given, if any; a number stands for the argument itself
Run = Callable[..., list]
Target = Callable[[Case], Run]


def cpu(case: Case) -> Run:
    """The CPU target, without a way out to the interpreter."""

    def run(outs: list | None = None) -> list:
        given = None if outs is None else [case.arguments[x] if isinstance(x, int) else x for x in outs]
        out = None if given is None else tuple(given) if len(given) > 1 else given[0]
        found = case.kernel(*case.arguments, out=out)
        return list(found) if isinstance(found, tuple) else [found]

    return run


def hold(case: Case, target: Target = cpu) -> Told:
    """Raises AssertionError where a law is broken."""
    before = case.bytes()
    case.tighten()
    shares = [
        case.compare(interpret(case.graph, case.arguments), "interpreter"),
        case.compare(interpret(rewrite(case.graph), case.arguments), "rewritten graph"),
        keeps(case, target(case)),
        overwrites(case, target),
    ]
    changed = [n for n, a, b in zip(case.kernel.params, before, case.bytes()) if a != b]
    assert not changed, f"arguments have changed: {changed}"
    judged = sum(int(np.isfinite(bound).sum()) for _, bound in case.expected)
    return Told(judged, sum(value.size for value, _ in case.expected), max(shares))


def keeps(case: Case, run: Run) -> float:
    """The laws of a target: right values, the same bits again, and outputs written in full and not beyond."""
    results = run()
    share = case.compare(results, "target")
    kept = [_bits(r) for r in results]
    differing = [name for name, a, b in zip(case.program.results, kept, run()) if a != _bits(b)]
    assert not differing, f"a second run has other bits in {differing}"
    r = random.Random(case.program.text)
    strided = r.random() < 0.25
    outs = [_guarded(r, x, strided) for x in results]
    guards = [around(x) for x in outs]
    made = run(list(outs))
    assert all(a is b for a, b in zip(made, outs)), "out= is not what is returned"
    if strided:  # other loops may fold in another order
        share = max(share, case.compare(outs, f"out= of strides {[x.strides for x in outs]}"))
    else:
        differing = [name for name, a, b in zip(case.program.results, kept, outs) if a != _bits(b)]
        assert not differing, f"out= and a new array have other bits in {differing}"
    assert guards == [around(x) for x in outs], "bytes beside an output have changed"
    return share


def overwrites(case: Case, target: Target) -> float:
    """The law of `out=` that is an argument: the same values, whatever else reads that argument."""
    pairs = [
        (k, r)
        for k, x in enumerate(case.arguments)
        for r, result in enumerate(case.graph.results)
        if isinstance(x, np.ndarray) and x.shape == case.expected[r][0].shape and x.flags.writeable and x.ndim
        if x.dtype == numpy_dtype(result.type.dtype) and x.dtype.isnative and x.flags.aligned and 0 not in x.strides
    ]
    if not pairs:
        return 0.0
    k, r = random.Random(case.program.text).choice(pairs)
    fresh = copy.copy(case)
    fresh.arguments = [again(x) if isinstance(x, np.ndarray) else x for x in case.arguments]
    outs: list[int | None] = [None] * len(case.expected)
    outs[r] = k
    return case.compare(target(fresh)(outs), f"out= that is {case.kernel.params[k]} for {case.program.results[r]}")


def _bits(x: np.ndarray) -> bytes:
    return np.ascontiguousarray(x).tobytes()


def _guarded(r: random.Random, x: np.ndarray, strided: bool) -> np.ndarray:
    """Room for an array like this: in another layout, or in the same order of memory."""
    if strided:
        return room(r, x.shape, x.dtype, r.choice(WRITEABLE), r.randrange(x.ndim) if x.ndim else 0)
    order = sorted(range(x.ndim), key=lambda a: -x.strides[a])
    made = room(r, tuple(x.shape[a] for a in order), x.dtype, "C")
    return made.transpose(np.argsort(order)) if x.ndim else made
