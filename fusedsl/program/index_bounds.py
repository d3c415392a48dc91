"""`bounds="raise"`: before a call on the CPU, a program says whether a result depends on an index out of range.

Imported only where that option is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..accuracy.indices import checked_gathers, dependence, require_indices_in_range
from ..errors import ShapeError
from ..ir.dims import Dim, Symbol
from ..ir.graph import Graph, Parameter
from ..runtime.array_copies import all_to_host
from ..runtime.arrays import Facts
from ..runtime.prepared_call import PreparedCall
from .prepare_call import Prepared, prepare

if TYPE_CHECKING:
    from ..config import Options
    from .call_steps import Source
    from .plans import Plans

CHANGES = {"bounds": "zero", "max_kernels": None, "autotune": False}  # of the options, for the program that asks


class IndexSource:
    """What another source's results depend on: one bool."""

    def __init__(self, source: Source):
        self.source = source
        self.generic = source.generic

    @property
    def text(self) -> str:
        """The program as the user wrote it."""
        return self.source.text

    @property
    def title(self) -> str:
        """What logs call it."""
        return f"indices of {self.source.title}"

    def build(
        self, parameters: tuple[Parameter, ...], extents: Mapping[Symbol, int], options: Options
    ) -> tuple[Graph, Mapping[Dim, bool]]:
        """The graph of that bool, and the guards of both."""
        graph, guards = self.source.build(parameters, extents, options)
        asked, others = dependence(graph, checked_gathers(graph), extents)
        return asked, {**guards, **others}

    def cache_parts(self) -> dict | None:
        """What its plans depend on."""
        told = self.source.cache_parts()
        return None if told is None else {"indices": told}

    def header(self) -> tuple[str, ...]:
        """The program that is asked about."""
        return self.source.header()


class CheckedCall:
    """A prepared call behind the one that says whether it may be made."""

    replay = None

    def __init__(self, check: PreparedCall, call: PreparedCall):
        self.check = check
        self.call = call
        self.may_write = call.may_write

    def __call__(self, payloads: list, outs: Sequence[Any] | None = None) -> list | None:
        """The results; None, and nothing is written, where one depends on an index out of range."""
        (depends,) = self.check(payloads)
        return None if depends else self.call(payloads, outs)

    def worth_replaying(self) -> bool:
        """Generated lines are of one call."""
        return False


def asks(plans: Plans, facts: Facts) -> bool:
    """Whether these arguments may hold an index that is out of range."""
    return bool(checked_gathers(plans.graph(facts)))


def require(plans: Plans, facts: Facts) -> Prepared | None:
    """ShapeError, which is an IndexError, where a result depends on an index out of range; what asks that of later
    calls like this one, or None where the answer is always the same."""
    if not asks(plans, facts):
        return None
    check = prepare(plans.indices, facts, None)
    if check.run()[0]:
        require_interpreted(plans, facts)
        raise ShapeError("an index is out of range", "shape.index", help='bounds="zero" reads 0 or NaN there')
    return check


def require_interpreted(plans: Plans, facts: Facts) -> None:
    """The same as the interpreter finds it."""
    require_indices_in_range(plans.graph(facts), all_to_host(facts))
