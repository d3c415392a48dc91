"""`bounds="raise"`: before a call on the CPU, a program checks whether a result depends on an index out of range.

Imported only if that option is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..accuracy.indices import checked_gathers, dependence, require_indices_in_range
from ..errors import ShapeError
from ..ir.dims import Dim, Symbol
from ..ir.graph import Graph, Parameter
from ..runtime.array_copies import all_to_host
from ..runtime.arrays import CPU, Facts
from ..runtime.host_device_copies import runs_on_other_device
from ..runtime.outputs import library_and_device
from ..runtime.prepared_call import PreparedCall
from .prepare_call import Prepared, prepare

if TYPE_CHECKING:
    from ..config import Options
    from .call_steps import ProgramSource
    from .plans import Plans

CHECK_OPTIONS = {"bounds": "zero", "max_kernels": None, "autotune": False}  # options of the program that checks


class IndexSource:
    """The source of the check of another source: one bool, whether a result depends on an index out of range."""

    def __init__(self, source: ProgramSource):
        self.source = source
        self.generic = source.generic

    @property
    def text(self) -> str:
        """The program as the user wrote it."""
        return self.source.text

    @property
    def title(self) -> str:
        """The name in logs."""
        return f"indices of {self.source.title}"

    def build(
        self, parameters: tuple[Parameter, ...], extents: Mapping[Symbol, int], options: Options
    ) -> tuple[Graph, Mapping[Dim, bool]]:
        """The graph of that bool, and the guards of both sources."""
        graph, guards = self.source.build(parameters, extents, options)
        check, others = dependence(graph, checked_gathers(graph), extents)
        return check, {**guards, **others}

    def cache_parts(self) -> dict | None:
        """The JSON that its plans depend on."""
        parts = self.source.cache_parts()
        return None if parts is None else {"indices": parts}

    def header(self) -> tuple[str, ...]:
        """The program that is checked."""
        return self.source.header()


class CheckedCall:
    """A prepared call that runs only if the check before it passes."""

    warm_call = None

    def __init__(self, check: PreparedCall, call: PreparedCall):
        self.check = check
        self.call = call
        self.may_write = call.may_write

    def __call__(self, payloads: list, outs: Sequence[Any] | None = None) -> list | None:
        """The results; None, with nothing written, if one depends on an index out of range."""
        (depends,) = self.check(payloads)
        return None if depends else self.call(payloads, outs)

    def worth_a_warm_call(self) -> bool:
        """Never: a warm call is of a single prepared call."""
        return False


def raises_on_index(options: Options, facts: Facts) -> bool:
    """Whether an index out of range is an error of a call with these arguments.

    On a CUDA device nothing waits for the kernel's findings: there only `verify` raises.
    """
    on_cpu = library_and_device(facts)[1] == CPU and not runs_on_other_device(options, facts)
    return options.bounds == "raise" and on_cpu


def may_be_out_of_range(plans: Plans, facts: Facts) -> bool:
    """Whether a call with these arguments raises on an index out of range, and may hold one."""
    return raises_on_index(plans.options, facts) and bool(checked_gathers(plans.graph(facts)))


def require_valid_indices(plans: Plans, facts: Facts) -> Prepared | None:
    """ShapeError (an IndexError) if a result depends on an index out of range; the check for later calls.

    None if the answer is always the same.
    """
    if not may_be_out_of_range(plans, facts):
        return None
    check = prepare(plans.indices, facts, None)
    if check.run()[0]:
        require_interpreted(plans, facts)
        raise ShapeError("an index is out of range", "shape.index", help='bounds="zero" reads 0 or NaN there')
    return check


def require_interpreted(plans: Plans, facts: Facts) -> None:
    """The same check by the interpreter, which finds the index."""
    require_indices_in_range(plans.graph(facts), all_to_host(facts))
