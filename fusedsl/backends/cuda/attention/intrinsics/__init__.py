"""Intrinsics of attention kernels: products by mma and wgmma, paged rows, split-KV partials."""

from ...emit.intrinsic import File, Method, Named

philox_mask = File("attention.intrinsics.random_mask").maker(
    "philox_mask", "tile, counter, counter_types, column, signature"
)
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

    copy = Method("size, padded_size, threads", "to, at")
    elementwise = Method("signature")
    places = Method("", "first")
    words = Method("", "flags")


PagedLookup = File("attention.intrinsics.paged_lookup").type("PagedLookup", "rows", PagedLookupIntrinsics)

_FILE = File("attention.intrinsics.wgmma")
wgmma_qk = _FILE.maker("wgmma_qk", "kind, rows, columns, width", "q, k")
wgmma_pv = _FILE.maker("wgmma_pv", "kind, steps, width", "sums, p, v")

_FILE = File("attention.intrinsics.mma")
mma_qk = _FILE.maker("mma_qk", "kind, rows, columns, width", "q, k")
mma_pv = _FILE.maker("mma_pv", "kind, columns, width", "sums, p, v")
fma_qk = _FILE.maker("fma_qk", "name, rows, columns", "sums, left, right, step")
fma_pv = _FILE.maker("fma_pv", "name, rows, columns, width", "sums, weights, right, step")
store_p = _FILE.maker("store_p", "name, rows, columns", "to, weights")

_FILE = File("attention.intrinsics.split_kv_partials")
store_partial_state = _FILE.maker("store_partial_state", "rows, own, width, threads", "address, *values")
load_partial_state = _FILE.maker("load_partial_state", "rows, own, width, threads", "address")
