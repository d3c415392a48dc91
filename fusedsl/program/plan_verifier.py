"""Verifies each stage of planning, if `verify=True` or FUSEDSL_VERIFY asks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .. import debug
from ..errors import CompileError
from ..fusion.fusion_group import Partition
from ..fusion.scalar_program import ReadableArrays, ScalarProgram
from ..fusion.segments import Segment
from ..fusion.verify import verify_partition, verify_scalar_program
from ..ir.dims import Dim, Symbol
from ..ir.graph import Graph
from ..ir.sample_extents import Samples, sampled
from ..ir.verify import VerifyError
from ..kernel_ir.plan import Plan
from ..kernel_ir.verify import verify_plan


@dataclass(frozen=True)
class Verifier:
    """Verifies the stages of one plan: well-formedness and, with `meaning`, equality with the graph on samples.

    `guards` are those that the `given` extents pass so far: planning adds to them.
    """

    graph: Graph
    given: Mapping[Symbol, int]
    guards: Mapping[Dim, bool]
    meaning: bool

    @property
    def samples(self) -> Samples:
        """Extents for which the plan so far has to hold."""
        return sampled(self.graph.parameters, self.graph.checks, self.guards, self.given)

    def lowered(self, program: ScalarProgram, segment: Segment, memory: ReadableArrays) -> None:
        """CompileError if the scalar program of a segment is not well formed."""
        _verified(
            "lowered program", lambda: verify_scalar_program(program, segment, memory, self.samples, self.meaning)
        )

    def partition(self, cut: Partition) -> None:
        """CompileError if the partition is not well formed."""
        _verified("partition", lambda: verify_partition(cut, self.graph, self.samples, self.meaning))

    def plan(self, plan: Plan) -> None:
        """CompileError if the stored plan is not well formed."""
        _verified("plan", lambda: verify_plan(plan, self.graph if self.meaning else None, self.samples))


def _verified(stage: str, verify: Callable[[], str]) -> None:
    try:
        reason = verify()
    except VerifyError as fault:
        message = f"the {stage} is not well formed: {fault}"
        help = "please report it with the expression, the shapes and the dtypes"
        raise CompileError(message, "compile.verify", help=help) from fault
    if reason:
        debug.say(debug.DECISIONS, f"the {stage} is not compared with its graph: {reason}")
