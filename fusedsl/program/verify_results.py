"""`verify=True`: compares a kernel's results with exact ones, within bounds derived from the expression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import debug
from ..accuracy.ball import Ball, stored
from ..accuracy.bounds import evaluate_nodes
from ..accuracy.fastmath import FASTMATH
from ..accuracy.indices import require_indices_in_range
from ..accuracy.judge import judge
from ..accuracy.products import TF32
from ..errors import FusedslError
from ..ir.graph import Graph
from ..ir.interp_memory import footprint
from ..ir.types import numpy_dtype
from ..kernel_ir.plan import Plan
from ..runtime.array_copies import to_host
from ..runtime.free_memory import require

if TYPE_CHECKING:
    from ..config import Options


def exact(graph: Graph, arguments: Sequence, options: Options) -> list[Ball]:
    """Each result in float64 (integers and bools as they are), with the error bound of a kernel's result.

    Raises the ShapeError of an index out of range that a result depends on.
    """
    require(2 * footprint(graph, arguments), "what the interpreter computes, step by step, and how far it may be off")
    roundings = {**(FASTMATH if options.fastmath else {}), **TF32.get(options.matmul, {})}
    balls = evaluate_nodes(graph, arguments, roundings)
    require_indices_in_range(graph, arguments)
    with np.errstate(all="ignore"):
        return [stored(*balls[r], r.type.dtype) for r in graph.results]


def compare(plan: Plan, expected: Sequence[Ball], results: Sequence[Any]) -> None:
    """FusedslError that names the first result that disagrees, and its index.

    Elements at which the expression is discontinuous within the rounding of its operands (a comparison of nearly equal
    values, a branch cut) may have any value: they are counted, and not judged.
    """
    for k, ((value, bound), result, t) in enumerate(zip(expected, results, plan.results)):
        got = np.asarray(to_host(result))
        got = got.view(numpy_dtype(t.dtype)) if t.dtype.storage else got  # CuPy holds float8 as bytes
        verdict = judge(got, value, bound, t.dtype)
        unsure = int(verdict.unsure.sum())
        if verdict.wrong.any():
            index = tuple(int(i) for i in np.argwhere(verdict.wrong)[0])
            margin = f" ± {bound[index]:.3g}" if t.dtype.kind == "f" else ""
            message = f"result {k} is {got[index]} at {index}, and the interpreter says {value[index]}{margin}"
            counts = f" ({int(verdict.wrong.sum())} of {value.size} elements differ, {unsure} were not judged)"
            help = "please report the expression, the shapes and the dtypes"
            raise FusedslError(message + counts, "verify", help=help)
        debug.say(debug.KERNELS, f"result {k} agrees: {unsure} of {value.size} elements were not judged")
