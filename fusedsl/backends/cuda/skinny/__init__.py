"""Products with few rows: schedule, emitter, intrinsics; the operand with many rows is read once."""

from ..emit.intrinsic import File, Method, Named


class SkinnyRingIntrinsics(Named):
    """Intrinsics of the stages of a product with few rows."""

    copy_streamed = Method("", "stage, address, pitch, rows, steps")
    copy_narrow = Method("", "stage, address, pitch, rows, steps")
    load_narrow = Method("near", "address, row_stride, step_stride, rows, steps")
    store_narrow = Method("near", "stage, elements")


class SkinnyTileIntrinsics(Named):
    """Intrinsics of the products and accumulators of a block with few rows."""

    zero = Method("", "")
    multiply = Method("", "accumulators, streamed, narrow")
    store_accumulators = Method("", "at, accumulators")
    load_accumulators = Method("", "at, chunk")
    chunk_coordinates = Method("", "chunk")


SKINNY_LAYOUT = "dtype, near, narrow, warps_narrow=1, warps_streamed=1, warps_k=4"
SkinnyRing = File("skinny.ring").type("SkinnyRing", SKINNY_LAYOUT, SkinnyRingIntrinsics)
SkinnyTile = File("skinny.tile").type("SkinnyTile", SKINNY_LAYOUT, SkinnyTileIntrinsics)
SkinnyFmaTile = File("skinny.fma_tile").type("SkinnyFmaTile", SKINNY_LAYOUT, SkinnyTileIntrinsics)
_FILE = File("skinny.accumulators")
store_record = _FILE.maker("store_record", "", "address, accumulators")
load_records = _FILE.maker("load_records", "", "address, record, splits")
