"""Intrinsics of attention kernels: fragments, products by mma and wgmma, paged rows, split-KV partials."""

from ...emit.intrinsic import File, Method, Named


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
    fold = Method("op", "*lifted")
    pack = Method("name", "values")
    unpack = Method("name", "pairs")
    unpack_bits = Method("packed=False", "words")
    zeros = Method("name='float32'", "")
    any_nonfinite = Method("", "values")
    load_smem = Method("rows", "at")
    store_smem = Method("name, rows", "at, values")


_FILE = File("attention.intrinsics.fragment")
Fragment = _FILE.type("Fragment", "columns", FragmentIntrinsics)

_FILE = File("attention.intrinsics.fragment_reduce")
quad_all_reduce = _FILE.maker("quad_all_reduce", "op", "*states")
splat_rows = _FILE.maker("splat_rows", "name", "value")
any_not_one = _FILE.function("any_not_one", "values")

_FILE = File("attention.intrinsics.fragment_layout")
row_positions = _FILE.maker("row_positions", "name", "start")
first_column = _FILE.function("first_column")

_FILE = File("attention.intrinsics.fragment_store")
store_row_values = _FILE.maker("store_row_values", "name", "addresses, values, rows, limit")
scatter_fragment = _FILE.maker("scatter_fragment", "width, name", "addresses, values, rows, limit, step")
store_fragment = _FILE.maker("store_fragment", "width, name", "addresses, values, rows, limit")

philox_mask = File("attention.intrinsics.random_mask").maker("philox_mask", "tile, place, placed, column, signature")
approx = File("attention.intrinsics.approx_math").maker("approx", "name")


class WarpRowIntrinsics(Named):
    """Intrinsics of a row of so many elements, across the lanes of a warp."""

    load = Method("name, stride_kind", "address, stride")
    store = Method("name, stride_kind", "address, values, stride")
    elementwise = Method("signature")
    places = Method("", "")
    product = Method("name", "x, y")


_FILE = File("attention.intrinsics.warp_row")
WarpRow = _FILE.type("WarpRow", "elements", WarpRowIntrinsics)
row_of = _FILE.function("row_of", "values, row")


class PagedLookupIntrinsics(Named):
    """Intrinsics of the rows of a tile that a lane looks up."""

    copy = Method("size, room, threads", "to, at")
    elementwise = Method("signature")
    places = Method("", "first")
    words = Method("", "flags")


PagedLookup = File("attention.intrinsics.paged_lookup").type("PagedLookup", "lines", PagedLookupIntrinsics)

_FILE = File("attention.intrinsics.wgmma")
wgmma_qk = _FILE.maker("wgmma_qk", "kind, rows, columns, width", "q, k")
wgmma_pv = _FILE.maker("wgmma_pv", "kind, steps, width", "sums, p, v")

_FILE = File("attention.intrinsics.smem_swizzle")
copy_rows = _FILE.maker("copy_rows", "lines, size, room, threads, packed=False", "to, at, step, first, limit, *heads")
store_rows = _FILE.maker("store_rows", "lines, size", "tile, first, to, step, count")
row_addresses = _FILE.maker("row_addresses", "lines, width, threads, across", "piece")
put_rows = _FILE.maker("put_rows", "name, lines, width", "to, lines, columns, values")

_FILE = File("attention.intrinsics.mma")
mma_qk = _FILE.maker("mma_qk", "kind, rows, columns, width", "q, k")
mma_pv = _FILE.maker("mma_pv", "kind, columns, width", "sums, p, v")
fma_qk = _FILE.maker("fma_qk", "name, rows, columns", "sums, left, right, step")
fma_pv = _FILE.maker("fma_pv", "name, rows, columns, width", "sums, weights, right, step")
store_p = _FILE.maker("store_p", "name, rows, columns", "to, weights")

_FILE = File("attention.intrinsics.split_kv_partials")
store_partial_state = _FILE.maker("store_partial_state", "rows, own, width, threads", "address, *values")
load_partial_state = _FILE.maker("load_partial_state", "rows, own, width, threads", "address")
