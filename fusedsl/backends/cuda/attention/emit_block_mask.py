"""Emits the block mask: bits (any active, all active) of 32 key tiles, computed by a warp or kept in shared memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....ir.types import BOOL
from ....kernel_ir.attention import BlockMask, TileBounds
from ..emit.source_text import indented
from .block_mask_inputs import bounds_axes, kv_bounds
from .emit_fragment import SCALAR
from .sm90_schedule import WORK_INFOS, AttentionTiling

if TYPE_CHECKING:
    from .emit_fragment import FragmentEmitter

LOAD_MASK_BITS = [
    "",
    "",
    '@uniform("int32, int32 -> int32, int32")',
    "def block_mask(at, word):",
    "    return ld_shared(at + 8 * word), ld_shared(at + 8 * word + 4)",
]


def emit_warp_block_mask(scope: FragmentEmitter, schedule: AttentionTiling, known: bool = False) -> str:
    """The call of a function that evaluates 32 key tiles, one per lane; "{word}" stands for their index. Bounds of the
    work tile are `known` from `emit_work_tile_bounds`, or computed for each key tile."""
    if (call := scope.function_names.get(("block_mask",))) is not None:
        return call
    kept = known and bool(kv_bounds(scope.kernel))
    lines, any_active, all_active = _emit_mask_call(scope, schedule, known)
    results = [f"here = first < n{scope.kv_axis}", f"return ballot(here & {any_active}), ballot(here & {all_active})"]
    place = [f"place = minimum(tile, int32((n{scope.kv_axis} - 1) // {schedule.columns}))"] if kept else []
    lines = ["tile = word * 32 + (thread_idx() & 31)", *place, *lines, *results]
    types = _outer_types(scope) | {"row_from": "int32", "row_end": "int32"} | (_bound_types(scope) if known else {})
    used = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", " ".join(line.partition("  #")[0] for line in lines)))
    given = ["word", *(name for name in types if name in used)]
    kinds = ", ".join({"word": "int32", **types}[name] for name in given)
    head = ["", "", f'@uniform("{kinds} -> int32, int32")', f"def block_mask({', '.join(given)}):"]
    scope.functions += [*head, *indented(lines)]
    return scope.function_name(("block_mask",), f"block_mask({', '.join(['{word}', *given[1:]])})")


def emit_smem_block_mask(scope: FragmentEmitter, schedule: AttentionTiling) -> list[str]:
    """Lines by which the warps of a block store the block mask bits of all key tiles in shared memory, each a tile."""
    stream = scope.kernel.attention
    assert stream.block_mask is not None
    scope.functions += LOAD_MASK_BITS
    n, columns, warps, sieve = f"n{scope.kv_axis}", schedule.columns, schedule.block_threads // 32, stream.block_mask
    once, each = ([x for x in sieve.bounds if (x.axis == scope.kv_axis) is own] for own in (False, True))
    found: list[str] = []

    def write() -> None:
        _begin_scalars(scope, sieve)
        scope.code += _tile_ends(scope, schedule, sieve, False)
        for extreme in once:
            _emit_bounds(scope, sieve, extreme, True)
        found.extend(scope.lines_of(tile))

    def tile() -> None:
        scope.code += _tile_ends(scope, schedule, sieve, True)
        for extreme in each:
            _emit_bounds(scope, sieve, extreme, True)
        scope.load_leaves(v.name for v in sieve.body.args)
        any_active, all_active = scope.call("asked", sieve.body, SCALAR)
        scope.code += [
            f"any_active, all_active = int32({any_active}), int32({all_active} & (first + {columns} <= {n}))",
            "if (thread_idx() & 31) == 0:",
            "    or_shared(block_mask_at + 8 * (tile >> 5), any_active << (tile & 31))",
            "    or_shared(block_mask_at + 8 * (tile >> 5) + 4, all_active << (tile & 31))",
            f"tile = int32(tile + {warps})",
        ]

    before = scope.lines_of(write)
    return [
        "word = thread_idx()",
        f"while word * {32 * columns} < {n}:",
        "    st_shared(block_mask_at + 8 * word, 0)",
        "    st_shared(block_mask_at + 8 * word + 4, 0)",
        f"    word = int32(word + {schedule.block_threads})",
        "barrier()",
        *before,
        "tile = int32(thread_idx() >> 5)",
        f"while tile * {columns} < {n}:",
        *indented(found),
    ]


def emit_smem_bounds(scope: FragmentEmitter, schedule: AttentionTiling) -> list[str]:
    """Lines by which the warps of a block store the bounds of all key tiles in shared memory, for all positions on the
    axes that they depend on."""
    n, columns, extremes = f"n{scope.kv_axis}", schedule.columns, kv_bounds(scope.kernel)
    stream, axes = scope.kernel.attention, bounds_axes(scope.kernel)
    assert stream.block_mask is not None
    sieve, size = stream.block_mask, 8 * len(extremes)

    def write() -> None:
        _begin_scalars(scope, sieve)
        scope.code += _tile_ends(scope, schedule, sieve, True)
        for k, extreme in enumerate(extremes):
            _emit_bounds(scope, sieve, extreme, True, columns)
            scope.code.append("if (thread_idx() & 31) == 0:")
            for j, value in enumerate((extreme.lower, extreme.upper)):
                at = f"{_smem_bounds_address(scope, schedule)} + entry * {size} + {8 * k + 4 * j}"
                scope.code.append(f"    st_shared({at}, int32({value.name}))")

    found, rest = scope.lines_of(write), "place"
    places = []
    for a in reversed(axes):
        places += [f"further = udiv({rest}, int32(n{a}))", f"c{a} = int32({rest} - further * n{a})"]
        rest = "further"
    return [
        f"entry, tiles = int32(thread_idx() >> 5), int32(({n} + {columns - 1}) // {columns})",
        f"while entry < tiles * {_outer_size(axes)}:",
        "    place = udiv(entry, tiles)",
        "    tile = int32(entry - place * tiles)",
        *indented([*places, *found]),
        f"    entry = int32(entry + {schedule.block_threads // 32})",
    ]


def emit_work_tile_bounds(scope: FragmentEmitter, schedule: AttentionTiling) -> list[str]:
    """Lines of a warp that compute the bounds of a work tile's rows, and the address of those along the kv axis."""
    stream, axes, place = scope.kernel.attention, bounds_axes(scope.kernel), "0"
    assert stream.block_mask is not None
    sieve = stream.block_mask

    def write() -> None:
        _begin_scalars(scope, sieve)
        scope.code += _tile_ends(scope, schedule, sieve, False)
        for extreme in sieve.bounds:
            if extreme.axis != scope.kv_axis:
                _emit_bounds(scope, sieve, extreme, True)

    found = scope.lines_of(write)
    if not kv_bounds(scope.kernel):
        return found
    for a in axes:
        place = f"({place}) * n{a} + c{a}" if place != "0" else f"c{a}"
    tiles = f"((n{scope.kv_axis} + {schedule.columns - 1}) // {schedule.columns})"
    at = f"({place}) * {tiles} * {8 * len(kv_bounds(scope.kernel))}"
    return [*found, f"extremes_at = int32({_smem_bounds_address(scope, schedule)} + {at})"]


def _smem_bounds_address(scope: FragmentEmitter, schedule: AttentionTiling) -> str:
    """The address of the bounds in shared memory: behind the block mask bits."""
    columns = 32 * schedule.columns
    return f"block_mask_at + {8 * WORK_INFOS} * int32((n{scope.kv_axis} + {columns - 1}) // {columns})"


def _outer_size(axes: Sequence[int]) -> str:
    return " * ".join(f"n{a}" for a in axes) or "1"


def _bound_types(scope: FragmentEmitter) -> dict[str, str]:
    """Names that `emit_work_tile_bounds` defines, with their types."""
    stream = scope.kernel.attention
    assert stream.block_mask is not None
    rows = [x for x in stream.block_mask.bounds if x.axis != scope.kv_axis]
    return {"extremes_at": "int32"} | {v.name: v.dtype.name for x in rows for v in (x.lower, x.upper)}


def _outer_types(scope: FragmentEmitter) -> dict[str, str]:
    """Types of the names defined before the first work tile, and of a work tile's coordinates."""
    found = dict.fromkeys(scope.names.parameters(), "int64")
    found |= dict.fromkeys((f"c{a}" for a in scope.outer), "int32")
    given = (*scope.kernel.scalars, *(p.value for p in scope.kernel.pointers))
    return found | {v.name: v.dtype.name for v in given}


def _emit_mask_call(scope: FragmentEmitter, schedule: AttentionTiling, kept: bool) -> tuple[list[str], str, str]:
    """(lines for one key tile, any element active, all active); `kept`: bounds are loaded from shared memory"""
    stream = scope.kernel.attention
    assert stream.block_mask is not None
    sieve, found = stream.block_mask, []  # type: BlockMask, list[str]

    def write() -> None:
        _begin_scalars(scope, sieve)
        scope.code += _tile_ends(scope, schedule, sieve, True) + _tile_ends(scope, schedule, sieve, False)
        for k, extreme in enumerate(kv_bounds(scope.kernel) if kept else ()):
            for j, value in enumerate((extreme.lower, extreme.upper)):
                word = f"ld_shared(extremes_at + place * {8 * len(kv_bounds(scope.kernel))} + {8 * k + 4 * j})"
                shown = f"{word} != 0" if value.dtype is BOOL else f"{value.dtype.name}({word})"
                scope.code += [f"{value.name} = {shown}"]
        for extreme in () if kept else sieve.bounds:
            _emit_bounds(scope, sieve, extreme, False)
        scope.load_leaves(v.name for v in sieve.body.args)
        found.extend(scope.call("asked", sieve.body, SCALAR))

    lines = scope.lines_of(write)
    any_active, all_active = found
    return lines, any_active, f"{all_active} & (first + {schedule.columns} <= n{scope.kv_axis})"


def _begin_scalars(scope: FragmentEmitter, sieve: BlockMask) -> None:
    """Start with the names defined before the first work tile, and the ranges of tiles."""
    given = (*scope.kernel.scalars, *(p.value for p in scope.kernel.pointers))
    scope.domain = {v.name: SCALAR for v in (*given, *(v for _, *vs in sieve.ranges for v in vs))}


def _tile_ends(scope: FragmentEmitter, schedule: AttentionTiling, sieve: BlockMask, along: bool) -> list[str]:
    """Lines with the first and the last position of a tile on the kv axis, or on the others."""
    columns, n = schedule.columns, f"n{scope.kv_axis}"
    lines = [f"first = int64(tile * {columns})", f"last = minimum(first + {columns - 1}, {n} - 1)"] if along else []
    rows = ("int64(row_from)", f"minimum(int64(row_from) + {schedule.rows - 1}, int64({scope.row_limit}) - 1)")
    ends = {scope.kv_axis: ("first", "last"), scope.query_axis: rows}
    if scope.packed_gqa_axis is not None:
        ends |= {a: ("int64(0)", f"n{a} - 1") for a in (scope.query_axis, scope.packed_gqa_axis)}
    for axis, low, high in sieve.ranges:
        if (axis == scope.kv_axis) is along:
            pair = ends.get(axis, (f"int64(c{axis})", f"int64(c{axis})"))
            lines += [f"{low.name} = {pair[0]}", f"{high.name} = {pair[1]}"]
    return lines


def _emit_bounds(scope: FragmentEmitter, sieve: BlockMask, extreme: TileBounds, spread: bool, most: int = 0) -> None:
    """Minimum and maximum of a value along one axis of a tile, by a thread or `spread` over a warp.

    If a tile has at most `most` positions, the loop is unrolled: positions beyond the end repeat the last one, so all
    loads are issued at once.
    """
    low, high, d = extreme.lower.name, extreme.upper.name, extreme.lower.dtype
    first, last = next((a.name, b.name) for axis, a, b in sieve.ranges if axis == extreme.axis)
    joins = ("{} & {}", "{} | {}") if d is BOOL else ("minimum({}, {})", "maximum({}, {})")

    def write() -> None:
        scope.loop_positions = {extreme.axis: "step"}
        scope.load_leaves(v.name for v in extreme.body.args)
        (value,) = scope.call(f"lift_{low}", extreme.body, SCALAR)
        scope.loop_positions = {}
        scope.code += [f"{name} = {join.format(name, value)}" for name, join in zip((low, high), joins)]

    inner = scope.lines_of(write)
    bits = d.bits - (d.kind == "i")
    ends = (
        ("True", "False") if d is BOOL else (f"{d}({(1 << bits) - 1})", f"{d}({-(1 << bits) if d.kind == 'i' else 0})")
    )
    begin, step = (f"{first} + (thread_idx() & 31)", 32) if spread else (first, 1)
    scope.code.append(f"{low}, {high} = {', '.join(ends)}")
    for k in range(0, most, step):
        scope.code += [f"step = minimum({begin} + {k}, {last})", *inner]
    if not most:
        scope.code += [f"step = {begin}", f"while step <= {last}:", *indented([*inner, f"step += {step}"])]
    if spread:
        for name, join, nothing in zip((low, high), joins, ends):
            scope.functions += ["", "", f"def identity_{name}():", f"    return {nothing}"]
            scope.functions += ["", "", f"def combine_{name}(a, b):", f"    return {join.format('a', 'b')}"]
            rule = f'reduction("{d.name}", combine_{name}, identity_{name})'
            scope.functions += ["", "", f"share_{name} = ThreadGroup(threads=32).all_reduce({rule})"]
            scope.code.append(f"{name} = share_{name}({name})")
    scope.domain |= {low: SCALAR, high: SCALAR}
