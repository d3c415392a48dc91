"""Selection by digits: what stands at some ranks of long rows, or their first k, without a sort of the row."""

from ..emit.intrinsic import File, Named

selector = File("radix_select.select_params").type("selector", "codec, count, ranks", Named)

_FILE = File("radix_select.digit_histogram")
clear_selection = _FILE.maker("clear_selection", "selector", "")
count_first_digits = _FILE.maker("count_first_digits", "selector", "values, start, limit")
add_first_digits = _FILE.maker("add_first_digits", "selector", "counts")
clear_row_counters = _FILE.maker("clear_row_counters", "selector", "counts, number")
locate_ranks = _FILE.maker("locate_ranks", "selector", "counts, cursor, columns, *ranks")
gather_candidates = _FILE.maker("gather_candidates", "selector", "values, start, limit, room")

_FILE = File("radix_select.candidates")
clear_digit_bins = _FILE.maker("clear_digit_bins", "selector", "")
count_next_digits = _FILE.maker("count_next_digits", "selector", "room, total, shift, block, blocks")
add_next_digits = _FILE.maker("add_next_digits", "selector", "counts, turn, block")
narrow_ranks = _FILE.maker("narrow_ranks", "selector", "counts, turn, shift")
shift_of_next = _FILE.maker("shift_of_next", "selector", "shift")
collect_candidates = _FILE.maker("collect_candidates", "selector", "room, total, shift, target, cursor, block, blocks")
order_candidates = _FILE.maker("order_candidates", "selector", "room, total")
entry_of_rank = _FILE.maker("entry_of_rank", "selector, number", "room")
