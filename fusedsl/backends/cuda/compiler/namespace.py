"""The namespace of a generated CUDA file: the intrinsics that it may use, and the functions of scalars."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from ....ir.types import DTYPES

FAMILIES = __package__.rpartition(".")[0]
# What generated files may use of each file of intrinsics.
WORDS = {
    "tile.thread_index": "thread thread_again line depth side block "
    "barrier take_turn await_cluster divide share scalar part "
    "word half",
    "tile.tile": "Tile shared_place await_fetched",
    "tile.scalar": "once",
    "tile.element": "load_value store_value together",
    "scan_sort.scan_intrinsics": "scan_tile",
    "scan_sort.decoupled_lookback": "scan_linked next_tile tile_row tiles_done",
    "elementwise.transpose_intrinsics": "Patch shared_bytes",
    "scan_sort.sort_keys": "order",
    "attention.intrinsics.warp_row": "Row row_of",
    "scan_sort.topk_intrinsics": "enter values_of columns_of best shared_room sort_tile take pick",
    "scan_sort.external_sort": "choice reset push settle keep_run merge_runs",
    "tile.thread_group": "Team",
    "tile.reduce": "fold fold_pairs fold_tile merge_states empty_state",
    "tile.cp_async": "Ring arrived send shared_start",
    "rows_and_columns.intrinsics": "Crew blocks everyone leave",
    "columns.intrinsics": "Stack",
    "matmul.intrinsics": "strip_places square_places put_strip no_sums add_sums multiply_strips scatter whole_quotient",
    "attention.intrinsics.fragment": "Fragment join_rows both_rows other_than_one",
    "attention.intrinsics.fragment_layout": "row_positions first_column",
    "attention.intrinsics.random_mask": "drawn_by_four",
    "attention.intrinsics.fragment_store": "store_rows scatter_fragment store_fragment",
    "attention.intrinsics.sm90": "init_barrier show_barriers expect_bytes arrive "
    "await_phase meet_group tell_group more_registers "
    "send_box show_copier count_sent await_sent fewer_registers copy_box parameter_at dynamic_start "
    "near_matrix far_matrix score_product weighed_product await_products keep_word mark_word kept_word "
    "same hold ballot highest_bit bit_count",
    "attention.intrinsics.approx_math": "quick",
    "attention.intrinsics.smem_swizzle": "copy_lines write_lines line_places put_lines",
    "attention.intrinsics.paged_lookup": "Lookup",
    "attention.intrinsics.mma": "warp_scores warp_sums near_sums far_sums keep_weights",
    "attention.intrinsics.split_kv_partials": "leave_part take_part",
    "tile.grid_sync": "last meet part_from leave_state take_state",
}


@cache
def namespace() -> dict[str, Any]:
    """Every name that a generated file may use."""
    from ..math.vocabulary import vocabulary
    from ..tile.element import fetch

    names = dict(vocabulary())
    for file, words in WORDS.items():
        found = import_module(f"{FAMILIES}.{file}")
        names |= {word: getattr(found, word) for word in words.split()}
    return names | {f"fetch_{name}": fetch(name) for name in DTYPES}
