"""Output epilogue by TMA: each warp writes its 16 rows to swizzled shared memory and stores them box by box.

A warp waits only until the TMA unit has read its previous rows. In a query tile that is not full, the 16 rows where the
array ends are stored row by row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..emit.source_text import indented
from .sm90_schedule import ROWS, SWIZZLE_ELEMENTS, WARP_ROWS

if TYPE_CHECKING:
    from .sm90_emit import Sm90Emitter

SWIZZLE_ROW_BYTES = 2 * SWIZZLE_ELEMENTS  # bytes


def store_output_tma(w: Sm90Emitter, values: str) -> None:
    """Emit the TMA store of output elements, after the previous store has read the shared memory."""
    s, number = w.schedule, len(w.kernel.tma_boxes) - 1
    window, panels = w.kernel.tma_boxes[number], -(-s.head_dim_v // SWIZZLE_ELEMENTS)
    kind, step = w.kernel.operands[window.operand].dtype, w.byte_step(window.operand, w.query_axis)
    w.top.append(
        f'put_results = output_fragment.store_smem("{kind}", {s.rows})\n'
        f"write_results = store_rows({s.rows}, {2 * s.head_dim_v})"
    )
    corner = ", ".join(
        [
            f"panel * {SWIZZLE_ELEMENTS}",
            *("row_from + strip" if a == w.query_axis else f"c{a}" for a in window.axes[1:]),
        ]
    )
    source = f"results_at + panel * {s.rows * SWIZZLE_ROW_BYTES} + strip * {SWIZZLE_ROW_BYTES}"
    send = [
        f"for panel in range({panels}):",
        f"    tma_store{number}({source}, map{number}(), {corner})",
        "tma_store_commit()",
    ]
    to = f"{w.base_address(window.operand)} + int64(row_from + strip) * {step}"
    w.code += [
        "tma_store_wait()",
        f"put_results(results_at + warpgroup * {ROWS * SWIZZLE_ROW_BYTES}, {values})",
        "fence_proxy_async()",
        f"strip = warp_uniform(warpgroup * {ROWS} "
        f"+ (reread_thread_idx() >> 5 & {ROWS // WARP_ROWS - 1}) * {WARP_ROWS})",
        f"if row_from + strip + {WARP_ROWS} <= row_end:",
        "    if (reread_thread_idx() & 31) == 0:",
        *indented(send, 2),
        "else:",
        f"    write_results(results_at, strip, {to}, {step}, row_end - row_from - strip)",
    ]
