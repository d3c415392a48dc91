"""Tiles of tensor-core products, which attention and matmul share: accumulator fragments, swizzled shared memory."""

from ..emit.intrinsic import File, Method, Named


class FragmentIntrinsics(Named):
    """Intrinsics of a fragment: the elements that a thread holds of 64 rows."""

    rowwise = Method("signature")
    columnwise = Method("signature")
    elementwise = Method("signature")
    in_chunks = Method("signature")
    index_mask = Method("signature")
    column_index = Method("name", "start")
    column_offsets = Method("", "")
    in_bounds = Method("", "start, limit")
    flags = Method("", "words")
    fold = Method("op, ordered=False", "*lifted")
    pack = Method("name", "values")
    unpack = Method("name", "pairs")
    unpack_bits = Method("packed=False", "words")
    zeros = Method("name='float32'", "")
    any_nonfinite = Method("", "values")
    load_smem = Method("rows", "at")
    store_smem = Method("name, rows", "at, values")


_FILE = File("mma.fragment")
Fragment = _FILE.type("Fragment", "columns", FragmentIntrinsics)

_FILE = File("mma.fragment_reduce")
quad_all_reduce = _FILE.maker("quad_all_reduce", "op", "*states")
splat_rows = _FILE.maker("splat_rows", "name", "value")
any_not_one = _FILE.function("any_not_one", "values")

_FILE = File("mma.fragment_layout")
row_positions = _FILE.maker("row_positions", "name", "start")
first_column = _FILE.function("first_column")

_FILE = File("mma.fragment_store")
store_row_values = _FILE.maker("store_row_values", "name", "addresses, values, rows, limit")
store_wide_box = _FILE.maker("store_wide_box", "first", "at, values")
scatter_fragment = _FILE.maker("scatter_fragment", "width, name", "addresses, values, rows, limit, step")
store_fragment = _FILE.maker("store_fragment", "width, name", "addresses, values, rows, limit")

_FILE = File("mma.smem_swizzle")
copy_rows = _FILE.maker("copy_rows", "lines, size, room, threads, packed=False", "to, at, step, first, limit, *heads")
store_rows = _FILE.maker("store_rows", "lines, size", "tile, first, to, step, count")
row_addresses = _FILE.maker("row_addresses", "lines, width, threads, across", "piece")
put_rows = _FILE.maker("put_rows", "name, lines, width", "to, lines, columns, values")
