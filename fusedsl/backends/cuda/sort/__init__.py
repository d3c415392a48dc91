"""Sorts and top-k of rows: schedules, emitters, intrinsics."""

from ..emit.intrinsic import File, Named

key_codec = File("sort.sort_keys").type("key_codec", "name, descending, tile, group, wide=False", Named)

_FILE = File("sort.bitonic_sort")
make_entries = _FILE.maker("make_entries", "codec", "values, start, limit")
values_of = _FILE.maker("values_of", "codec, count", "entries")
columns_of = _FILE.maker("columns_of", "codec, count", "entries")
select_best = _FILE.maker("select_best", "codec, count, each, ranks=()", "entries")
sort_smem = _FILE.maker("sort_smem", "codec, size, groups=1", "")
sort_tile = _FILE.maker("sort_tile", "codec, size", "room, entries")
sort_warp = _FILE.maker("sort_warp", "codec, size", "room, entries")
load_entries = _FILE.maker("load_entries", "codec, each, space=3", "room, first, limit")
load_entry = _FILE.maker("load_entry", "codec, rank, space=3", "room")
load_entry_at = _FILE.maker("load_entry_at", "codec, space=3", "room, rank")

_FILE = File("sort.block_radix_sort")
block_radix = _FILE.type("block_radix", "codec, size, positions, key_name=''", Named)
radix_room = _FILE.maker("radix_room", "sorter", "")
sort_row = _FILE.maker("sort_row", "sorter", "room, values, start, limit")
load_sorted = _FILE.maker("load_sorted", "sorter, each", "room, first, limit")
load_sorted_entry = _FILE.maker("load_sorted_entry", "sorter, rank", "room")
load_sorted_entry_at = _FILE.maker("load_sorted_entry_at", "sorter", "room, rank")

_FILE = File("sort.block_topk")
topk_buffer = _FILE.type("topk_buffer", "codec, count, keep, size, limit", Named)
reset = _FILE.maker("reset", "buffer", "room")
insert = _FILE.maker("insert", "buffer", "room, entries, bound, first")
flush = _FILE.maker("flush", "buffer", "room")

_FILE = File("sort.merge_sort")
store_run = _FILE.maker("store_run", "codec, size", "room, work, at")
merge_runs = _FILE.maker("merge_runs", "codec, size", "work, total")

radix_sorter = File("sort.onesweep_lookback").type("radix_sorter", "name, descending, threads, items, positions", Named)

_FILE = File("sort.onesweep_intrinsics")
store_words = _FILE.maker("store_words", "sorter, tile", "room, values, start, limit")
clear_counts = _FILE.maker("clear_counts", "sorter", "")
add_counts = _FILE.maker("add_counts", "sorter", "counts")
clear_states = _FILE.maker("clear_states", "sorter", "states, block, blocks, tiles")
clear_total = _FILE.maker("clear_total", "sorter", "counts, turn")
sweep_digit = _FILE.maker(
    "sweep_digit", "sorter", "room, padded, half, moves, columns, turn, counts, states, tiles, block, blocks"
)
ranked = _FILE.maker("ranked", "sorter, part, count", "room, padded, half, moves, first, limit")
