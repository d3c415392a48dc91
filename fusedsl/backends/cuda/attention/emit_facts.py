"""Facts of an attention kernel that its emitters read: axes, operands, addresses, and choices of its architecture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ....kernel_ir.attention import AttentionBody, PagedRow, Score, WeightedSum
from ....kernel_ir.attention_operands import ABSENT, AttentionOperands, scheduled_operands
from ....kernel_ir.kernel import AttentionKernel
from ....kernel_ir.phase import Body, Phase
from ..emit.source_builder import Names
from .sm90_schedule import AttentionTiling
from .sm90_tile_shape import is_index_mask


@dataclass(frozen=True)
class AttentionFacts:
    """Facts of an attention kernel, and what its emitter chooses for the architecture."""

    kernel: AttentionKernel
    tiling: AttentionTiling
    row_limit: str  # the number of rows of the array, or where those of the work tile end
    clamped_row: str = "minimum(i, n - 1)"  # row index i, at most that of the last of n rows
    packed_gqa_axis: int | None = None  # packed GQA: a query tile has all positions of this axis
    # names of true row maxima by those of the references that may stay below them
    row_maxima: Mapping[str, str] = field(default_factory=dict)
    hoists_common: bool = False  # the common part of partial and full tiles is computed before the branch
    masks_before_branch: bool = False  # so are the index masks of both, once in the file
    has_full_phases: bool = True  # full tiles have code of their own
    loads_epilogue_late: bool = False  # after the last tile, so that no register holds them before

    # -- formula

    @property
    def body(self) -> AttentionBody:
        return self.kernel.attention

    @cached_property
    def operands(self) -> AttentionOperands:
        return scheduled_operands(self.kernel)

    @property
    def score(self) -> Score:
        return self.body.scores[0]

    @property
    def has_output(self) -> bool:
        return bool(self.body.weighted_sums)

    @property
    def weighted_sum(self) -> WeightedSum:
        """The weighted sum p·v (kernels with an output only)."""
        return self.body.weighted_sums[0]

    @property
    def output(self) -> str:
        """The name of the output accumulator."""
        return self.weighted_sum.state.name

    @property
    def has_block_mask(self) -> bool:
        return self.body.block_mask is not None

    @property
    def index_masks(self) -> list[Body]:
        """The masks that are evaluated as bits."""
        return [body for body in self.body.mask_inputs if is_index_mask(self.kernel, body)]

    @property
    def full_phases(self) -> tuple[Phase, ...]:
        """The phases of full tiles, if they differ from those of partial tiles and have code of their own."""
        return self.body.block_mask.full_phases if self.body.block_mask and self.has_full_phases else ()

    def paged_row(self, name: str) -> PagedRow | None:
        """The paged row of operand "k" or "v"; None if the operand is a plain array."""
        return getattr(self.body.paged, name, None)

    def bodies(self) -> Iterator[Body]:
        """All bodies of the formula but those of the block mask and the paged operands."""
        body = self.body
        for phase in (*body.tile_phases, *(body.block_mask.full_phases if body.block_mask else ())):
            yield phase.element
            yield from filter(None, (phase.row,))
        yield from (body.state.combine, *(w.combine_tile for w in body.weighted_sums))
        yield from (*body.mask_inputs, *body.row_inputs)
        yield from filter(None, (body.row_epilogue, body.update_row_max))
        yield from (epilogue.body for epilogue in body.epilogues)

    @cached_property
    def epilogue_inputs(self) -> set[str]:
        """The names that only the epilogue reads."""
        last = [*filter(None, (self.body.row_epilogue,)), *(epilogue.body for epilogue in self.body.epilogues)]
        before = {v.name for body in self.bodies() if all(body is not x for x in last) for v in body.args}
        return {v.name for body in last for v in body.args} - before

    # -- axes and addresses

    @property
    def names(self) -> Names:
        return Names(self.kernel)

    @property
    def kv_axis(self) -> int:
        return self.kernel.row_axes

    @property
    def query_axis(self) -> int:
        return self.operands.query_axis

    @property
    def value_axis(self) -> int:
        """The axis of the columns of v and of outputs."""
        return self.weighted_sum.axis if self.has_output else ABSENT

    @cached_property
    def outer(self) -> list[int]:
        """The axes of the work tiles, such as batch and head."""
        return [a for a in range(self.kernel.row_axes) if a not in (self.query_axis, self.packed_gqa_axis)]

    def step(self, k: int, axis: int) -> str:
        """The stride of an operand along an axis, in elements."""
        stride = self.kernel.operands[k].strides[axis]
        return self.names.stride(k, axis) if stride == "s" else f"int64({stride})"

    def byte_step(self, k: int, axis: int) -> str:
        """The stride of an operand along an axis, in bytes."""
        stride, size = self.kernel.operands[k].strides[axis], self.kernel.operands[k].dtype.itemsize
        return f"int64({self.names.stride(k, axis)} * {size})" if stride == "s" else f"int64({int(stride) * size})"

    def base_address(self, k: int) -> str:
        """The address of an operand at the work tile's coordinates on the outer axes."""
        strides, size = self.kernel.operands[k].strides, self.kernel.operands[k].dtype.itemsize
        terms = [f"c{a} * {self.names.stride(k, a)}" for a in self.outer if strides[a] == "s"]
        terms += [f"c{a}" for a in self.outer if strides[a] == "1"]
        pointer = self.names.pointer(k)
        return f"{pointer} + ({' + '.join(terms)}) * {size}" if terms else pointer

    def outer_coordinates(self) -> list[str]:
        """Lines that split the index `outer` into coordinates on the outer axes."""
        lines, rest = [], "outer"
        for a in reversed(self.outer[1:]):
            lines += [f"q{a} = udiv({rest}, int32(n{a}))", f"c{a} = int32({rest} - q{a} * n{a})"]
            rest = f"q{a}"
        return [*lines, *(f"c{a} = {rest}" for a in self.outer[:1])]
