"""Frame of a kernel's plan: its axes, its operands, and the names of everything that it reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...fusion.coordinates import Axis
from ...fusion.fusion_group import FusionGroup
from ...fusion.scalar_program import ScalarStore
from ...ir.dims import Dim, symbols
from ...ir.folds import FOLDS, SCAN_NAMES
from ...ir.graph import Node, Parameter, Type, node, rebuild, walk
from ...ir.types import FLOAT32, INT64
from ...rewrite.scalar_builder import free_axes
from ..kernel import Load, Position
from ..plan import ArrayUse, IterationIndex, KernelPlan, ScalarUse
from .body_builder import BodyBuilder, stem_of
from .division import multiply_by_reciprocals


class KernelFrame:
    """The nodes of a fusion group under their names, and the plan without phases."""

    def __init__(self, group: FusionGroup, parameters: Sequence[Parameter]):
        self.group = group
        self.parameters = parameters
        self.ranks = (group.sorted_axis,) if group.sorted_axis else ()
        self.columns = self._columns()
        self.rows = self._row_axes()
        self.axes = (*self.rows, *self.columns, *self.ranks)
        self.builder = BodyBuilder()
        self._import()
        self.free = free_axes(self._roots())
        self.nodes = list(walk(self._roots()))
        self.sorts = [n for n in self.nodes if n.op == "sort"]
        self._name_leaves()

    def _row_axes(self) -> tuple[Axis, ...]:
        """Row axes of the iteration."""
        return self.group.rows

    def _columns(self) -> tuple[Axis, ...]:
        """Axes of the iteration after the rows."""
        return self.group.columns

    def _import(self) -> None:
        """Replace the folds of other groups by loads of their temporaries."""
        g = self.group
        roots = [*g.folds, *g.column_folds, *(r.value for r in g.all_stores)]
        new = rebuild(
            roots, lambda old, args: g.imports.get(old) or (node(old.op, args, old.attr, old.type) if args else old)
        )
        divided = multiply_by_reciprocals(list(dict.fromkeys(new[r] for r in roots)), {*g.columns, *self.ranks})
        self.folds = [divided[new[f]] for f in g.folds]
        self.cross = [divided[new[f]] for f in g.column_folds]
        self.stores, self.row_stores, self.sorted_stores, self.cross_stores = (
            [(r, stored(divided[new[r.value]], r)) for r in roots]
            for roots in (g.stores, g.row_stores, g.sorted_stores, g.column_stores)
        )

    def _all_stores(self) -> list[tuple[ScalarStore, Node]]:
        return self.stores + self.row_stores + self.sorted_stores + self.cross_stores

    def _roots(self) -> list[Node]:
        return [*self.folds, *self.cross, *(v for _, v in self._all_stores())]

    def _name_leaves(self) -> None:
        self.loads: list[Node] = []
        self.positions: list[Node] = []
        self.pointers: list[Node] = []
        self.numbers: list[Node] = []
        kinds = Counter(_reduction_name(n) for n in self.nodes if n.op in ("fold", "scan"))
        for n in self.nodes:
            if n.op == "load":
                self.builder.name(n, *self._load_name(n))
                self.loads.append(n)
            elif n.op == "pointer":
                name, shown = self._load_name(n)
                self.builder.name(n, f"{name}_base", f"&{shown}")
                self.pointers.append(n)
            elif n.op == "stride":
                name, shown = self._load_name(n)
                self.builder.name(n, f"{name}_step", f"stride {n.attr[1]} of {shown}")
                self.numbers.append(n)
            elif n.op == "fetch":
                self.builder.describe(n, f"{self._load_name(n)[1]}[...]")
            elif n.op in ("scalar", "size"):
                shown = self.parameters[n.attr].name if n.op == "scalar" else self._extent_text(n.attr)
                self.builder.name(n, stem_of(shown) if n.op == "scalar" else "size", shown)
                self.numbers.append(n)
            elif n.op == "literal":
                self.builder.name(n, "literal", f"literal {n.attr[0]}")
                self.numbers.append(n)
            elif n.op in ("fold", "scan"):
                name = _reduction_name(n)
                value = self.builder.name(n, name, name)
                if kinds[name] > 1:  # comments tell several by the numbers of their values
                    self.builder.describe(n, value.name)
            elif n.op == "sorted":
                self.builder.name(n, f"ranked_{n.attr[0]}", "ranked" if n.attr[0] == "values" else "places")
        for n in self.nodes:
            if n.op == "position" or (n.op == "fold" and FOLDS[n.attr[0]].positional):
                p = n if n.op == "position" else position(n.attr[1][0])
                if p not in self.positions:
                    self.builder.name(p, "i", "position")
                    self.positions.append(p)

    def _extent_text(self, extent: Dim) -> str:
        """An extent by the parameters' shapes, as `x.shape[1]`."""
        text = str(extent)
        for symbol in sorted(symbols(extent), key=lambda s: -len(str(s))):
            text = text.replace(str(symbol), f"{self.parameters[symbol.argument].name}.shape[{symbol.axis}]")
        return text

    def _load_name(self, n: Node) -> tuple[str, str]:
        source = n.attr[0]
        name = self.parameters[source.index].name if source.kind == "argument" else "part"
        return stem_of(name), name

    def is_element(self, n: Node) -> bool:
        everything = not self.group.rows and self.group.is_elementwise
        return everything or bool(self.free.get(n, frozenset()) & set(self.group.columns))

    def varies(self, n: Node) -> bool:
        """Whether a value differs within a row: between columns, or between sorted elements."""
        return self.is_element(n) or bool(self.free.get(n, frozenset()) & set(self.ranks))

    def known(self) -> list[Node]:
        return [*self.loads, *self.pointers, *self.positions, *self.numbers]

    def frame(self, name: str, header: tuple[str, ...]) -> KernelPlan:
        """The plan without phases: axes, operands, loads and scalars."""
        arrays = [*map(self._input, self.loads), *map(self._gathered, self.pointers)]
        gathered = len(self.loads)
        stored_at = {}
        for root, _ in self._all_stores():
            stored_at[root] = len(arrays)
            arrays.append(self._output(root))
        self.stored_at = stored_at
        return KernelPlan(
            name,
            header,
            tuple(a.extent for a in self.rows),
            tuple(a.extent for a in self.columns),
            len(self.loads) + len(self.pointers),
            tuple(arrays),
            tuple(Load(self.builder.value(n), k) for k, n in enumerate(self.loads)),
            tuple(Position(self.builder.value(n), self.axes.index(n.attr)) for n in self.positions),
            tuple(self._scalar(n) for n in self.numbers),
            (),
            pointers=tuple(Load(self.builder.value(n), gathered + k) for k, n in enumerate(self.pointers)),
            ranks=tuple(a.extent for a in self.ranks),
        )

    def _input(self, n: Node) -> ArrayUse:
        source, at = n.attr
        where = tuple(self._coordinate(c.start, c.step, c.axis) for c in at)
        d = source.stored_dtype(n.type.dtype)
        return ArrayUse(self.builder.names[n], d, source.kind, source.index, source.views, where)

    def _gathered(self, n: Node) -> ArrayUse:
        """Operand behind a pointer, and the axes along which its computed addresses vary."""
        (source,) = n.attr
        fetches = [f for f in self.nodes if f.op == "fetch" and f.attr[0] == source]
        free = frozenset().union(*(self.free[f] for f in fetches))
        axes = tuple(k for k, a in enumerate(self.axes) if a in free)
        return ArrayUse(self.builder.names[n], fetches[0].attr[2], source.kind, source.index, source.views, (), axes)

    def _output(self, root: ScalarStore) -> ArrayUse:
        starts = root.offsets or (0,) * len(root.axes)
        where = tuple(self._coordinate(s, 1, a) for s, a in zip(starts, root.axes))
        views = (("reshape", root.viewed),) if root.viewed != root.shape else ()
        stem = "out" if root.kind == "result" else "part"
        if root.is_scatter:
            name, axes = self.builder.fresh_name(stem), tuple(range(len(self.axes)))
            return ArrayUse(name, root.stored_dtype, root.kind, root.index, views, (), axes)
        return ArrayUse(self.builder.fresh_name(stem), root.stored_dtype, root.kind, root.index, views, where)

    def _coordinate(self, start, step: int, axis: Axis | None) -> IterationIndex:
        return IterationIndex(start, step, None if axis is None else self.axes.index(axis))

    def _scalar(self, n: Node) -> ScalarUse:
        if n.op == "stride":
            source, axis = n.attr
            array = next(k for k, p in enumerate(self.pointers) if p.attr[0] == source)
            return ScalarUse(self.builder.value(n), "stride", (len(self.loads) + array, axis))
        if n.op == "literal":
            return ScalarUse(self.builder.value(n), "literal", n.attr[1])
        return ScalarUse(self.builder.value(n), "argument" if n.op == "scalar" else "extent", n.attr)


def stored(value: Node, root: ScalarStore) -> Node:
    """The value without a rounding that the store does anyway."""
    d = root.type.dtype
    rounds = value.op == "cast" and value.type.dtype is d and root.kind == "result" and d.compute is FLOAT32
    return value.args[0] if rounds and value.args[0].type.dtype.compute is FLOAT32 else value


def position(axis: Axis) -> Node:
    """The index on an axis."""
    return node("position", (), axis, Type(INT64))


def _reduction_name(n: Node) -> str:
    """The stem of a fold's or a scan's value."""
    return n.attr[0] if n.op == "fold" else SCAN_NAMES[n.attr[0]]
