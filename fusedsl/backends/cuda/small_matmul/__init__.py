"""Batches of small matrices: schedule, emitter, intrinsics; a few threads of a block multiply each."""

from ..emit.intrinsic import File, Method, Named


class SmallTileIntrinsics(Named):
    """Intrinsics of small matrices, several a block."""

    factor_places = Method("kind, along", "")
    store_factor = Method("kind, name, along", "at, values")
    zero = Method("name", "")
    multiply = Method("name", "left, right, accumulators")
    sum_places = Method("part", "")


SmallTile = File("small_matmul.tile").type("SmallTile", "rows, columns, depth, block=256", SmallTileIntrinsics)
