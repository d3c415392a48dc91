"""Greedy partition of a scalar program into the fewest kernels; every decision is recorded with its reason."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.dims import Dim, product
from ..ir.folds import FOLDS
from ..ir.graph import Node, walk
from ..rewrite.scalar_builder import bound_axes
from .contractions import matmul_factors
from .coordinates import Axis, memory_order
from .cost_model import Prices, computed_nodes, cost
from .formulation import Formulation
from .fusion_group import Decision, FusionGroup, Partition, in_launch_order
from .online.choose_attention import AttentionChoice, external_folds, needed_folds
from .online.find_attention import AttentionPattern
from .partition_state import PartitionState, reduced_node
from .refusal_reasons import LONG, describe_axes, describe_fold, describe_mismatch, why_separate
from .scalar_program import ScalarStore

ROW_WORK = 64  # instructions per row that all threads of a row may repeat instead of another kernel
FEW_SORTED = 2048  # sorted elements that a block holds and can fold
FEW_BEST, LONGEST_ORDER = 512, 8192  # first elements that a block finds as a row goes by; columns that it sorts
LONG_ROW = 4 << 20  # bytes; longer rows exceed the shared memory of a cluster


def partition(
    chosen: AttentionChoice, fits: Callable[[Dim, int], bool], prices: Prices | None, way: Formulation, first: int = 0
) -> Partition:
    """Fusion groups of a scalar program whose attention patterns are chosen.

    `fits` answers whether a count is within a limit for this length class. Rows that exceed the chip are read again by
    a second kernel, if there is a register budget. Kernels are numbered from `first`. Decisions have times if there are
    `prices`.
    """
    return _Partitioner(chosen, fits, prices, way, first).run()


class _Partitioner(PartitionState):
    """State of one partition: groups so far, temporaries, decisions."""

    def run(self) -> Partition:
        pending = list(self.program.stores)
        needed = set(needed_folds(self.program, self.pattern_of))
        folds = [n for n in self.order if n in needed]
        while pending or folds:
            left = len(pending) + len(folds)
            folds = [f for f in folds if f in self.crossing or not self._place_fold(f)]
            # column folds join row folds, which must be placed first
            folds = [f for f in folds if f not in self.crossing or not self._place_fold(f)]
            stored = [r for r in pending if self.ready(r.value) and self._place_store(r)]
            pending = [r for r in pending if r not in stored]
            if left == len(pending) + len(folds):
                raise AssertionError("a temporary is read before it can be computed")
        rank_of = {n: number for number, n in enumerate(self.order)}
        for k, g in enumerate(self.groups):
            self._import_folds(k, g, rank_of)
        return in_launch_order(self.groups, self.temporaries, (*self._priced(), *self.refused))

    # -- placing

    def _place_attention(self, pattern: AttentionPattern) -> bool:
        """Make a group for an attention pattern, once its inputs have producers."""
        foreign = external_folds(pattern)
        if not all(f in self.kernel_of for f in foreign):
            return False
        reads = frozenset().union(*(self.reads[v] for v in pattern.values))
        if not self.are_written(reads):
            return False
        after = {self.kernel_of[f] for f in foreign} | self.writers(reads)
        group = FusionGroup(
            pattern.rows, pattern.reduction.axes, list(pattern.folds), waits_for=after, attention=pattern
        )
        self.groups.append(group)
        self.kernel_of |= dict.fromkeys(pattern.folds, len(self.groups) - 1)
        scores = ", ".join(dict.fromkeys(describe_fold(p.fold) for p in pattern.score_products))
        decision = Decision(
            True,
            (self._kernel_name(len(self.groups) - 1),),
            f"{scores} is computed by the kernel of its {len(pattern.folds)} folds (attention)",
        )
        self.decisions.append((decision, len(self.groups) - 1, pattern.folds[-1]))
        return True

    def _place_fold(self, f: Node) -> bool:
        if f in self.pattern_of:
            return f in self.kernel_of or self._place_attention(self.pattern_of[f])
        x, columns = reduced_node(f).args[0], bound_axes(reduced_node(f))
        ranks = f.args[1:] if f.op == "sorted" else ()
        if not self.ready(x) or not all(map(self.ready, ranks)):
            return False
        before = set[int]().union(*map(self.dependencies, ranks))  # a rank is known when the kernel begins
        rows, needs = self.free[x] - columns, self.dependencies(x) | before
        for k, g in enumerate(self.groups):
            if f in self.crossing and g.folds and (frozenset(g.rows), frozenset(g.columns)) == (columns, rows):
                if self._add_column_fold(k, f, needs):
                    return True
                continue
            if g.attention:
                continue
            same_columns = frozenset(g.columns) == columns or (
                _folds_sorted_axis(f) and self.varies_only_by_sort(k, x, columns)
            )
            if g.is_elementwise or frozenset(g.rows) != rows or not same_columns:
                continue
            if k in before:
                self._refuse(f, "the rank that it is read at is known only when the kernel has run", k)
            elif not self._can_share_loop(g, f):
                self._refuse(f, why_separate(g, f), k)
            elif not self.is_small(k, x) or (len(g.folds) >= self.most_folds and not self.shares(k, x)):
                self._refuse(f, LONG, k)
            elif self.can_join(k, x, needs):
                self._join(k, needs, f, "runs over the same rows and columns")
                self.add_value(k, x)
                _members(g, f).append(f)
                self.kernel_of[f] = k
                return True
            else:
                self._refuse(f, "it needs a result that is computed after the kernel has run", k)
        others = [k for k, g in enumerate(self.groups) if not g.is_elementwise and not g.attention]
        if others:
            kernels = " and ".join(map(self._kernel_name, others))
            self._refuse(f, f"{describe_axes(f, rows, columns)}, unlike {kernels}", others[0])
        rows_in_order, columns_in_order = (memory_order([x], sorted(axes, key=str)) for axes in (rows, columns))
        self.groups.append(FusionGroup(rows_in_order, columns_in_order, waits_for=set(needs)))
        _members(self.groups[-1], f).append(f)
        self.kernel_of[f] = len(self.groups) - 1
        self.add_value(self.kernel_of[f], x)
        return True

    def _add_column_fold(self, k: int, f: Node, needs: set[int]) -> bool:
        """Add a fold over the rows of group k as a column fold; False if the group cannot compute it."""
        g = self.groups[k]
        if not self.together:
            self._refuse(f, "rows of this layout or length do not stay on the chip beside the column states", k)
        elif g.scans or g.sorted:
            self._refuse(f, "a kernel that scans or sorts its rows does not reduce over rows too", k)
        elif not self.can_join(k, f.args[0], needs):
            self._refuse(f, "it needs a result that is computed after the kernel has run", k)
        else:
            self._join(k, needs, f, "reduces over the rows that the kernel reads anyway")
            g.column_folds.append(f)
            self.kernel_of[f] = k
            return True
        return False

    def _can_share_loop(self, g: FusionGroup, f: Node) -> bool:
        """Whether one loop over a row can compute both: its scans have one direction, it sorts once, all folds are
        tiled or none."""
        if f.op == "scan" and (g.sorted or g.column_folds or any(s.attr[2] != f.attr[2] for s in g.scans)):
            return False
        if f.op == "sorted":
            other = isinstance(f.attr[1], Axis) and g.sorted_axis not in (None, f.attr[1])
            if other or g.scans or g.column_folds or any(r.args[0] is not f.args[0] for r in g.sorted):
                return False
        if f.op == "fold" and g.folds:
            tiled = self._factors(f) is not None
            if (self._factors(g.folds[0]) is not None) != tiled or (tiled and len(g.folds) == self.most_products):
                return False
        if self._orders_long_rows(f, g.folds) or any(self._orders_long_rows(r, [f]) for r in g.sorted):
            return False
        mixed = g.scans if f.op == "fold" else g.folds
        return not mixed or bool(g.rows) or self.fits(product(a.extent for a in g.columns), self.one_block)

    def _orders_long_rows(self, r: Node, others: list[Node]) -> bool:
        """Whether a kernel would fold in rows that several blocks sort: these blocks only sort, and fold nothing."""
        if r.op != "sorted" or not any(f.op == "fold" for f in others):
            return False
        _, column, count = r.args[0].attr
        few = isinstance(count, int) and count <= FEW_BEST
        return not few and not self.fits(column.extent, LONGEST_ORDER)

    def _factors(self, f: Node) -> tuple[Node, Node] | None:
        """The factors of a matrix product, or None."""
        return matmul_factors(f, self.free, self.free[f.args[0]] - bound_axes(f))

    def _place_store(self, r: ScalarStore) -> bool:
        axes = frozenset(a for a in r.axes if a is not None)
        needs = self.dependencies(r.value)
        if r.is_scatter:
            return self._place_scatter(r, needs)
        k = self._find_group(r, axes, needs)
        if k is None:
            order = tuple(a for a in r.axes if a is not None)
            self.groups.append(FusionGroup((), order))
            k = len(self.groups) - 1
        g = self.groups[k]
        g.waits_for |= needs - {k}
        self.add_value(k, r.value)
        if not self.direct_folds(r.value).isdisjoint(g.column_folds):
            g.column_stores.append(r)
        elif g.attention:
            (g.row_stores if axes == frozenset(g.rows) else g.value_axis_stores).append(r)
        elif not g.is_elementwise and axes == frozenset(g.rows) and g.columns:
            g.row_stores.append(r)
        else:
            (g.sorted_stores if self.is_sorted_store(k, axes, r.value) else g.stores).append(r)
        if r.kind == "temporary":
            self.add_writer(r.index, k)
        return True

    def _place_scatter(self, r: ScalarStore, needs: set[int]) -> bool:
        """Make a kernel for a scatter alone, after the kernels that store what it merges into, and earlier scatters."""
        if self.unwritten[r.index] > sum(s.is_scatter for s in self.program.stores if s.index == r.index):
            return False
        order = tuple(a for a in r.axes if a is not None)
        self.groups.append(FusionGroup((), order, stores=[r], waits_for=needs | self.writers_of[r.index]))
        self.add_value(len(self.groups) - 1, r.value)
        self.add_writer(r.index, len(self.groups) - 1)
        return True

    def _find_group(self, r: ScalarStore, axes: frozenset[Axis], needs: set[int]) -> int | None:
        """The kernel that can store a value: a producer of its inputs, or else one over the same axes."""
        for k in sorted(range(len(self.groups)), key=lambda k: k not in needs):
            g = self.groups[k]
            if g.scatters:
                continue
            if self._is_column_store(k, r, axes, needs):
                self._join(k, needs, r, "is stored by the kernel that folds its rows")
                return k
            if g.attention and k not in needs:
                continue
            if k in needs and self._rereads_rows(g, axes):
                self._refuse(r, "its rows are longer than a chip holds: a second kernel reads them again", k)
                continue
            fits = self._accepts(g, axes) or self.is_sorted_store(k, axes, r.value)
            if (
                fits
                and k not in needs
                and g.rows
                and axes == frozenset(g.rows)
                and self._row_instructions(r) > ROW_WORK
            ):
                self._refuse(r, "all threads of a row would repeat its computation", k)
                continue
            if fits and k not in needs and not self.is_small(k, r.value):
                self._refuse(r, LONG, k)
                continue
            if fits and self.can_join(k, r.value, needs):
                how = "is stored by the kernel that computes it" if k in needs else "runs over the same axes"
                self._join(k, needs, r, how)
                return k
            if fits:
                self._refuse(r, "it needs a result that is computed after the kernel has run", k)
            elif k in needs and not g.is_elementwise:
                self._refuse(r, describe_mismatch(g), k)
        return None

    def _row_instructions(self, r: ScalarStore) -> int:
        """Instructions of one value, without the folds that it reads."""
        return sum(map(cost, computed_nodes([r.value], self.uses[r.value])))

    def _is_column_store(self, k: int, r: ScalarStore, axes: frozenset[Axis], needs: set[int]) -> bool:
        """Whether group k can store a value per column that reads none of its row folds."""
        g, used = self.groups[k], self.direct_folds(r.value)
        along_columns = not used.isdisjoint(g.column_folds) and axes == frozenset(g.columns)
        return along_columns and used.isdisjoint(g.folds) and self.has_inputs(k, r.value, needs)

    def _accepts(self, g: FusionGroup, axes: frozenset[Axis]) -> bool:
        """Whether a kernel can store along these axes: a map along its own, other kernels per row or per element."""
        if g.is_elementwise:
            return frozenset(g.columns) == axes
        if axes == frozenset(g.rows):
            return True
        if g.attention:
            return any(axes == frozenset((*g.rows, a)) for a in g.attention.value_axes)
        if axes != frozenset(g.rows) | frozenset(g.columns):
            return False
        return bool(g.rows) or not g.folds or self.fits(product(a.extent for a in g.columns), self.one_block)

    def _rereads_rows(self, g: FusionGroup, axes: frozenset[Axis]) -> bool:
        """Whether a second kernel reads rows again that exceed the chip, to store their elements."""
        # measured: H200, 64 rows of 67 MB. A map, one vector per thread, reads and writes them in 2.00 ms, as fast as a
        # copy; a reduction kernel with four vectors per thread takes 2.10 ms.
        if self.fewest or not g.rows or not g.folds or not g.is_plain or axes != {*g.rows, *g.columns}:
            return False
        size = max((n.type.dtype.itemsize for n in walk(g.folds) if n.op == "load"), default=0)
        return size > 0 and not self.fits(product(a.extent for a in g.columns), LONG_ROW // size)


def _members(g: FusionGroup, f: Node) -> list[Node]:
    return {"scan": g.scans, "fold": g.folds, "sorted": g.sorted}[f.op]


def _folds_sorted_axis(f: Node) -> bool:
    """Whether a fold may run along a sorted axis: the axis is short, and the fold does not depend on indices."""
    if f.op != "fold" or FOLDS[f.attr[0]].positional:
        return False
    return all(isinstance(a.extent, int) and a.extent <= FEW_SORTED for a in f.attr[1])
