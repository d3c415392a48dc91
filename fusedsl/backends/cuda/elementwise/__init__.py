"""Elementwise kernels and transposes: schedules, emitters, intrinsics."""

from ..emit.intrinsic import Binding, File, Method, Named

_FILE = File("elementwise.transpose_intrinsics")


class SmemTransposeIntrinsics(Named):
    """Intrinsics of an array that is contiguous along the other axis: by way of shared memory."""

    load = Method("", "base, stride, rows, columns")
    store_smem = Method("", "smem, values")
    load_smem = Method("", "smem")
    store_results = Method("", "smem, values")
    store = Method("", "smem, base, stride, rows, columns")


class TransposeTileIntrinsics(Named):
    """Intrinsics of a square tile of two axes."""

    load = Method("name, stride_kind", "base, row_stride, column_stride, rows, columns")
    store = Method("name, stride_kind", "base, row_stride, column_stride, rows, columns, values")
    positions = Method("name, along", "origin")

    def via_smem(self, name: str, vectorized: bool) -> Binding[SmemTransposeIntrinsics]:
        return Binding(f'{self}.via_smem("{name}", vectorized={vectorized})', SmemTransposeIntrinsics)


TransposeTile = _FILE.type("TransposeTile", "edge, width, threads", TransposeTileIntrinsics)
shared_bytes = File("elementwise.transpose_addresses").maker("shared_bytes", "size", "")

load_shifted = File("elementwise.shifted_loads").maker(
    "load_shifted", "tile, name, displacements", "address, start, limit"
)

_FILE = File("elementwise.flat_intrinsics")
load_each = _FILE.maker("load_each", "tile, name", "address, offsets")
positions_in_order = _FILE.maker("positions_in_order", "tile, axes")
