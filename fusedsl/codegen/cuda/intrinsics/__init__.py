"""What a generated CUDA file is written in: tiles, folds, and where a thread stands."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from ....ir.types import DTYPES

# What generated files may use of each file here.
WORDS = {
    "launch": "thread thread_again line depth side block barrier take_turn await_cluster divide share scalar part "
    "word half",
    "tile": "Tile shared_place await_fetched",
    "scalar": "once",
    "element": "load_value store_value together",
    "scan": "scan_tile",
    "link": "scan_linked next_tile tile_row tiles_done",
    "patch": "Patch shared_bytes",
    "entries": "order",
    "row": "Row row_of",
    "rank": "enter values_of columns_of best shared_room sort_tile take pick",
    "stream_rank": "choice reset push settle keep_run merge_runs",
    "team": "Team",
    "fold": "fold fold_pairs fold_tile merge_states empty_state",
    "ahead": "Ring arrived send shared_start",
    "crew": "Crew blocks everyone leave",
    "column": "Stack",
    "contract": "strip_places square_places put_strip no_sums add_sums multiply_strips scatter whole_quotient",
    "fragment": "Fragment join_rows both_rows other_than_one",
    "fragment_place": "row_positions first_column",
    "drawn": "drawn_by_four",
    "fragment_store": "store_rows scatter_fragment store_fragment",
    "hopper": "init_barrier show_barriers expect_bytes arrive await_phase meet_group tell_group more_registers "
    "send_box show_copier count_sent await_sent fewer_registers copy_box parameter_at dynamic_start "
    "near_matrix far_matrix score_product weighed_product await_products keep_word mark_word kept_word "
    "same hold ballot highest_bit bit_count",
    "quick": "quick",
    "lines": "copy_lines write_lines line_places put_lines",
    "lookup": "Lookup",
    "warp_product": "warp_scores warp_sums near_sums far_sums keep_weights",
    "parts": "leave_part take_part",
    "exchange": "last meet part_from leave_state take_state",
}


@cache
def namespace() -> dict[str, Any]:
    """Every name that a generated file may use."""
    from ..math import vocabulary
    from .element import fetch

    names = dict(vocabulary())
    for file, words in WORDS.items():
        found = import_module(f".{file}", __name__)
        names |= {word: getattr(found, word) for word in words.split()}
    return names | {f"fetch_{name}": fetch(name) for name in DTYPES}
