"""The state of a partition: groups so far, the temporaries between them, and decisions with their prices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from math import inf

from ..ir.dims import Dim
from ..ir.graph import Node, Type
from .both_axis_reductions import both_axis_reductions
from .coordinates import Axis
from .cost_model import Computation, Prices
from .formulation import AttentionMode, Formulation
from .fusion_group import Decision, FusionGroup, load_of
from .kernel_limits import MOST_OPERATIONS, MOST_PROMISED
from .online.choose_attention import AttentionChoice, external_folds
from .producer_map import ProducerMap
from .refusal_reasons import describe_fold
from .scalar_program import ScalarStore

# Matrix products in a kernel: on a GPU as many as a recurrent cell has, on a CPU as many as it has of one operand, as
# the time of LLVM grows faster than their number. measured: 8 of 256 x 256 in one kernel, or 4 and 4, take as long.
MOST_PRODUCTS, MOST_ON_CPUS = 8, 4
MOST_FOLDS_ON_CPUS = 16  # of a kernel: its time is that of arithmetic then, and LLVM's grows faster than their number
MOST_PRICED = 64  # decisions; pricing one walks all nodes of two kernels
ONE_BLOCK = 65536  # elements that a full reduction by one block may store too; beyond, a second kernel is faster
STEADY_BLOCK = 1 << 20  # the same if batch-invariant


class PartitionState(ProducerMap):
    """Groups so far, temporaries, decisions."""

    def __init__(
        self,
        chosen: AttentionChoice,
        fits: Callable[[Dim, int], bool],
        prices: Prices | None,
        way: Formulation,
        first: int,
    ):
        self.program, self.pattern_of, self.refused = chosen.program, chosen.pattern_of, chosen.refused
        self.fits = fits
        self.prices = prices
        self.together = way.together
        self.one_block = STEADY_BLOCK if way.steady else ONE_BLOCK
        self.fewest = way.budget is None
        on_cpu = way.attention is AttentionMode.TILE_MAX
        self.most_products = MOST_ON_CPUS if on_cpu else MOST_PRODUCTS
        self.most_folds = MOST_FOLDS_ON_CPUS if on_cpu and not self.fewest else inf
        self.first = first
        values = [r.value for r in self.program.stores]
        longest = MOST_PROMISED if self.fewest else MOST_OPERATIONS
        written = Counter(r.index for r in self.program.stores if r.kind == "temporary")
        super().__init__([*values, *self.pattern_of], written, longest)
        self.crossing = both_axis_reductions(self.order, self.free, self.uses, values)
        self.crossing -= set(self.pattern_of)
        self.temporaries = list(self.program.temporaries)
        self.decisions: list[tuple[Decision, int, Node | ScalarStore]] = []  # with the group and the candidate

    def _kernel_name(self, k: int) -> str:
        return f"kernel {self.first + k}"

    def _join(self, k: int, needs: set[int], what: Node | ScalarStore, how: str) -> None:
        self.groups[k].waits_for |= needs - {k}
        self.decisions.append((Decision(True, (self._kernel_name(k),), f"{describe_fold(what)} {how}"), k, what))

    def _refuse(self, what: Node | ScalarStore, reason: str, k: int) -> None:
        self.decisions.append((Decision(False, (describe_fold(what),), reason), k, what))

    def _priced(self) -> tuple[Decision, ...]:
        """The decisions with the time that one kernel instead of two saves, or would save."""
        if self.prices is None:
            return tuple(d for d, _, _ in self.decisions)
        priced: list[Decision] = []
        for d, k, what in self.decisions:
            if len(priced) == MOST_PRICED:
                break
            joined, producer = self.groups[k], self._producer_of(what)
            other = self._own_kernel(what) if producer is joined else producer.work
            remaining = joined.work.without(other) if producer is joined else joined.work
            priced.append(replace(d, seconds=self.prices.saved(remaining, other)))
        return (*priced, *(d for d, _, _ in self.decisions[MOST_PRICED:]))

    def _own_kernel(self, what: Node | ScalarStore) -> Computation:
        """A fold, scan or store as a kernel of its own that loads the folds of others."""
        if isinstance(what, ScalarStore):
            return Computation((what.value,), (what,), self.uses[what.value])
        value = what.args[0] if what.op == "fold" else what
        return Computation((value,), (), self.uses[value])

    def _producer_of(self, what: Node | ScalarStore) -> FusionGroup:
        if isinstance(what, Node):
            return self.groups[self.kernel_of[what]]
        return next(g for g in self.groups if what in g.all_stores)

    # -- temporaries between groups

    def _import_folds(self, k: int, g: FusionGroup, rank_of: dict[Node, int]) -> None:
        """Load folds of other groups, in program order, so that plans are deterministic."""
        if g.attention:
            for f in external_folds(g.attention):
                if f not in g.imports:
                    g.imports[f] = self._temporary(f)
        values = [] if g.attention else [reduced_node(f).args[0] for f in g.folds + g.column_folds + g.scans + g.sorted]
        values += [rank for f in g.sorted for rank in f.args[1:]]
        for value in [*values, *(r.value for r in g.all_stores)]:
            for f in sorted(self.direct_folds(value), key=rank_of.__getitem__):
                if self.kernel_of[f] != k and f not in g.imports:
                    g.imports[f] = self._temporary(f)

    def _temporary(self, f: Node) -> Node:
        """The load of a fold (or scan) from the temporary that its group stores it to."""
        producer = self.groups[self.kernel_of[f]]
        axes, stores = producer.rows, producer.row_stores
        if producer.attention and (value_axes := [a for a in producer.attention.value_axes if a in self.free[f]]):
            axes, stores = (*producer.rows, *value_axes), producer.value_axis_stores
        elif f in producer.column_folds:
            axes, stores = producer.columns, producer.column_stores
        elif f.op == "scan":
            axes, stores = producer.rows + producer.columns, producer.stores
        elif f.op == "sorted" and isinstance(f.attr[1], Axis):
            axes, stores = (*producer.rows, f.attr[1]), producer.sorted_stores
        stored = next((r for r in stores if r.value is f and r.keeps_value), None)
        if stored is None:
            shape = tuple(a.extent for a in axes)
            stored = ScalarStore("temporary", len(self.temporaries), shape, shape, axes, f, Type(f.type.dtype, shape))
            self.temporaries.append(stored.type)
            stores.append(stored)
        return load_of(stored)


def reduced_node(f: Node) -> Node:
    """The node whose argument runs along the columns."""
    return f.args[0] if f.op == "sorted" else f
