"""Namespace of a generated CUDA file: its intrinsics and scalar functions."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from ....ir.types import DTYPES

FAMILIES = __package__.rpartition(".")[0]
# What generated files may use of each file of intrinsics.
WORDS = {
    "tile.thread_index": "thread_idx reread_thread_idx thread_idx_y block_dim_y block_dim_x block_idx "
    "barrier griddepcontrol cluster_wait divide udiv scalar subkernel "
    "word half",
    "tile.tile": "Tile smem_base cp_async_wait_all",
    "tile.scalar": "uniform",
    "tile.element": "load_value store_value concat_tiles",
    "scan_sort.scan_intrinsics": "scan_tile",
    "scan_sort.decoupled_lookback": "scan_with_lookback take_tile tile_row reset_lookback",
    "elementwise.transpose_intrinsics": "TransposeTile shared_bytes",
    "scan_sort.sort_keys": "key_codec",
    "attention.intrinsics.warp_row": "WarpRow row_of",
    "scan_sort.topk_intrinsics": "make_entries values_of columns_of select_best sort_smem sort_tile "
    "load_entries load_entry",
    "scan_sort.external_sort": "topk_buffer reset insert flush store_run merge_runs",
    "tile.thread_group": "ThreadGroup",
    "tile.reduce": "reduction reduce_pairs reduce_tile combine_states identity_state",
    "tile.cp_async": "CpAsyncRing wait_group commit_group dynamic_smem_base",
    "rows_and_columns.intrinsics": "RowGroups grid_dim grid_barrier grid_barrier_exit",
    "columns.intrinsics": "ColumnReducer",
    "matmul.intrinsics": "k_slice_coordinates output_coordinates store_k_slice "
    "zero_accumulators add_accumulators multiply_k_slices scatter udiv64",
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
    "tile.grid_sync": "is_last_block grid_barrier_wait grid_barrier_reset store_partial load_partial",
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
