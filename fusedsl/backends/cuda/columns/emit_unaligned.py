"""Emits shifted column vectors: threads load aligned vectors and the reduced states move to the right rows.

If the rows of an array are no whole number of vectors long, each begins at another offset in 16 bytes; those of every
so many columns begin alike: as many as a vector has elements, or fewer. So threads_y is a multiple of that, each level
loads the aligned vectors around its rows, and after the loop each thread takes the first few states of the next one.
The last thread of a block, and one more vector in each row, exist for their neighbours only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....kernel_ir.phase import Phase
from ..emit.source_text import accumulator_name

if TYPE_CHECKING:
    from .emit import ColumnEmitter
    from .emit_index import ColumnIndexEmitter


def emit_shift(writer: ColumnIndexEmitter) -> None:
    """Begin with the aligned vector that holds a thread's first row, or if nothing of it exists with the one before."""
    kernel, size, width = writer.kernel, _itemsize(writer), writer.schedule.width
    row, extent, begin = _row(writer), _extent(writer), writer.bases[_operand(writer)]
    column = f"int64(level) * {writer.scope.names.stride(_operand(writer), kernel.axes - 1)} * {size}"
    lane, lanes = writer.thread_x_in_block()
    writer.code.extend(
        [
            f"in_bounds = in_bounds & ({lane} < {lanes} - 1) & ({row} < {extent})",
            f"left = int32(select(in_bounds, min({extent} - {row}, {width}), 0))",
            f"shift = int32((({begin} + {column}) & {size * width - 1}) >> {size.bit_length() - 1})",
            f"beyond = {row} - shift >= {extent}",
            f"{begin} = {begin} - int64(select(beyond, shift + {width}, shift) * {size})",
        ]
    )


def emit_alignment(writer: ColumnEmitter, phase: Phase) -> None:
    """Move the states of a phase from where vectors were read to the rows of each thread."""
    row = _row(writer)
    for use in phase.folds:
        given = f"{accumulator_name(use)}, shift, {row} == 0, {row} >= {_extent(writer)}"
        writer.code.append(f"{accumulator_name(use)} = align_{writer.define_reduction(use)}({given})")


def shifted_strips(writer: ColumnIndexEmitter, vectors: str) -> str:
    """How many strips there are of so many vectors: a lane of each is there for the others."""
    index, (_, lanes) = writer.index, writer.thread_x_in_block()
    return f"{index}(udiv({index}({vectors} + {lanes} - 2), {lanes} - 1))"


def _operand(writer: ColumnIndexEmitter) -> int:
    (found,) = (k for k, operand in enumerate(writer.kernel.operands) if operand.access == "shifted")
    return found


def _itemsize(writer: ColumnIndexEmitter) -> int:
    return writer.kernel.operands[_operand(writer)].dtype.itemsize


def _row(writer: ColumnIndexEmitter) -> str:
    return f"row{writer.kernel.row_axes - 1}"


def _extent(writer: ColumnIndexEmitter) -> str:
    return writer.scope.names.extent(writer.kernel.row_axes - 1)
