"""Skips key tiles that are masked for all rows of this warpgroup; another warpgroup of the work tile may need them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..emit.source_text import indented
from .emit_fragment import SCALAR
from .sm90_producer import work_info_at, work_info_words
from .sm90_schedule import ROWS

if TYPE_CHECKING:
    from .sm90_emit import Sm90Emitter


def skip_inactive_tiles(w: Sm90Emitter, work_iter: str, kv_iter: str) -> list[str]:
    """Lines of a warpgroup that skips key tiles without an active element in its rows; `work_iter`
    work tiles and `kv_iter` key tiles came before. No warpgroup skips the last key tile.

    If key tiles are at least as wide as a work tile has rows, all warpgroups have nearly the same tiles: none skips.
    """
    if w.schedule.columns >= w.schedule.rows or w.bias:
        return []
    place = work_info_at(w, work_iter)
    past = [
        *(line for lines in w.pingpong() for line in lines),
        *elect_one(f"mbarrier_arrive(k_empty + {w.kv_slot(kv_iter)} * 8)"),
        f"mbarrier_wait_parity(v_full + {w.kv_slot(kv_iter)} * 8, {w.kv_parity(kv_iter)})",
        *elect_one(f"mbarrier_arrive(v_empty + {w.kv_slot(kv_iter)} * 8)"),
        *w.wait_tile(),
    ]
    return [
        f"strip_from = int32(ld_shared({place}) + warpgroup * {ROWS})",
        f"strip_end = ld_shared({place} + {4 * work_info_words(w).index('row_end')})",
        f"while {_tile_is_inactive(w)}:",
        *indented(past),
    ]


def elect_one(*lines: str) -> list[str]:
    """Lines that one thread of a warpgroup executes."""
    return ["if elected:", *indented(lines)]


def _tile_is_inactive(w: Sm90Emitter) -> str:
    """The condition that the key tile of `tile_info` has no active element in the warpgroup's rows (`strip_from` to
    `strip_end`) and is not the last. Masks that read memory or other axes are not evaluated."""
    sieve, given = w.stream.block_mask, {v.name: v.dtype.name for v in w.kernel.scalars}
    kinds, counts = {"tile_info": "int32", "strip_from": "int32", "strip_end": "int32"}, ""
    lines: list[str] = []
    if sieve is not None:
        places = {
            w.kv_axis: ("first", "last"),
            w.query_axis: ("int64(strip_from)", f"int64(minimum(strip_from + {ROWS}, strip_end) - 1)"),
        }
        ends = {v.name: text for axis, *pair in sieve.ranges for v, text in zip(pair, places.get(axis, ()))}
        if all(v.name in ends or v.name in given for v in sieve.body.args):
            columns, n = w.schedule.columns, f"n{w.kv_axis}"
            lines += [f"first = int64((tile_info >> 8) * {columns})", f"last = minimum(first + {columns - 1}, {n} - 1)"]
            lines += [f"{name} = {text}" for name, text in ends.items()]
            found: list[str] = []
            lines += w.lines_of(lambda: found.extend(w.call("asked", sieve.body, SCALAR)))
            kinds |= {n: "int64"} | {v.name: given[v.name] for v in sieve.body.args if v.name in given}
            counts = f" & {found[0]}"
    lines.append(f"return (tile_info & 1 == 0) & (((strip_from < strip_end){counts}) == False)")
    w.define("nothing", SCALAR, f"{', '.join(kinds.values())} -> bool", ", ".join(kinds), lines)
    return f"nothing({', '.join(kinds)})"
