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
    "attention.intrinsics.warp_row": "WarpRow row_of",
    "scan_sort.topk_intrinsics": "enter values_of columns_of best shared_room sort_tile take pick",
    "scan_sort.external_sort": "choice reset push settle keep_run merge_runs",
    "tile.thread_group": "Team",
    "tile.reduce": "fold fold_pairs fold_tile merge_states empty_state",
    "tile.cp_async": "Ring arrived send shared_start",
    "rows_and_columns.intrinsics": "Crew blocks everyone leave",
    "columns.intrinsics": "Stack",
    "matmul.intrinsics": "strip_places square_places put_strip no_sums add_sums multiply_strips scatter whole_quotient",
    "attention.intrinsics.fragment": "Fragment quad_all_reduce splat_rows any_not_one",
    "attention.intrinsics.fragment_layout": "row_positions first_column",
    "attention.intrinsics.random_mask": "philox_mask",
    "attention.intrinsics.fragment_store": "store_row_values scatter_fragment store_fragment",
    "attention.intrinsics.sm90": "mbarrier_init fence_mbarrier_init mbarrier_expect_tx mbarrier_arrive "
    "mbarrier_wait_parity bar_sync bar_arrive setmaxnreg_inc "
    "tma_store fence_proxy_async tma_store_commit tma_store_wait setmaxnreg_dec tma_load param_address dynamic_smem "
    "k_major_descriptor mn_major_descriptor wgmma_qk wgmma_pv wgmma_wait st_shared or_shared ld_shared "
    "warp_uniform wait_for_values ballot find_leading_one popc",
    "attention.intrinsics.approx_math": "approx",
    "attention.intrinsics.smem_swizzle": "copy_rows store_rows row_addresses put_rows",
    "attention.intrinsics.paged_lookup": "PagedLookup",
    "attention.intrinsics.mma": "mma_qk mma_pv fma_qk fma_pv store_p",
    "attention.intrinsics.split_kv_partials": "store_partial_state load_partial_state",
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
