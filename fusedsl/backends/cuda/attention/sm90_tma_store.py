"""Results of the attend skeleton that leave through shared memory: the copy engine brings them on from there.

Each warp leaves its 16 rows in panels, and sends them panel by panel; it waits for nothing but that the copy engine has
read its last ones. Of a tile of rows that is not full, the strip of 16 where the item ends is written line by line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..emit.source_text import indented
from .sm90_schedule import PANEL, ROWS, WARP_ROWS

if TYPE_CHECKING:
    from .sm90_emit import AttendWriter

LINE = 2 * PANEL  # bytes


def send_results(w: AttendWriter, values: str) -> None:
    """Write the lines that send elements of results, once the last ones are on their way."""
    s, number = w.schedule, len(w.kernel.windows) - 1
    window, panels = w.kernel.windows[number], -(-s.out_width // PANEL)
    kind, step = w.kernel.operands[window.operand].dtype, w.byte_step(window.operand, w.lane)
    w.top.append(
        f'put_results, write_results = O.put_box("{kind}", {s.rows}), write_lines({s.rows}, {2 * s.out_width})'
    )
    corner = ", ".join([f"panel * {PANEL}", *("row_from + strip" if a == w.lane else f"c{a}" for a in window.axes[1:])])
    send = [
        f"for panel in range({panels}):",
        f"    send{number}(results_at + panel * {s.rows * LINE} + strip * {LINE}, map{number}(), {corner})",
        "count_sent()",
    ]
    to = f"{w.base(window.operand)} + int64(row_from + strip) * {step}"
    w.code += [
        "await_sent()",
        f"put_results(results_at + group * {ROWS * LINE}, {values})",
        "show_copier()",
        f"strip = same(group * {ROWS} + (reread_thread_idx() >> 5 & {ROWS // WARP_ROWS - 1}) * {WARP_ROWS})",
        f"if row_from + strip + {WARP_ROWS} <= row_end:",
        "    if (reread_thread_idx() & 31) == 0:",
        *indented(send, 2),
        "else:",
        f"    write_results(results_at, strip, {to}, {step}, row_end - row_from - strip)",
    ]
