"""Scatters: elements merged at computed indices by atomics, in bins of a block, as integers, or in ordered runs."""

from ..emit.intrinsic import File, Named

merge_tile = File("scatter.intrinsics").maker("merge_tile", "tile, name, fold", "address, indices, values, left")

merge_equal_places = File("scatter.runs").maker(
    "merge_equal_places", "tile, name, fold", "address, indices, values, left"
)

_FILE = File("scatter.ordered_segments")
ordered_runs = _FILE.type("ordered_runs", "name, threads", Named)
fold_runs = _FILE.maker("fold_runs", "runs, tile", "address, indices, values, left, records")
finish_runs = _FILE.maker("finish_runs", "runs", "address, records, blocks")

_SUMS = File("scatter.superaccumulator")
accumulate_tile = _SUMS.maker("accumulate_tile", "tile, name, fold, columns", "address, indices, values, left")

_FILE = File("scatter.private_bin_intrinsics")
private_bins = _FILE.type("private_bins", "name, fold, bins, copies, threads, unit", Named)
clear_bins = _FILE.maker("clear_bins", "bins", "")
merge_into_bins = _FILE.maker("merge_into_bins", "bins, tile", "indices, values, left")
flush_bins = _FILE.maker("flush_bins", "bins", "address")

_WORDS = File("scatter.private_word_intrinsics")
private_words = _WORDS.type("private_words", "name, fold, chunks, indices, copies, threads", Named)
clear_words = _WORDS.maker("clear_words", "words", "")
merge_into_words = _WORDS.maker("merge_into_words", "words, tile", "address, indices, values, left")
flush_words = _WORDS.maker("flush_words", "words", "address")
