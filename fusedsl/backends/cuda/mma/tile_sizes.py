"""Sizes that cp.async, swizzles, wgmma, TMA and mbarriers fix for tiles of tensor-core products."""

COPY_BYTES = 16  # bytes of the widest cp.async
SWIZZLE_BYTES = 128  # bytes of a swizzled row in shared memory
SWIZZLE_ELEMENTS = 64  # elements of 16 bits in a swizzled row
ALIGNMENT = 1024  # bytes: alignment of a swizzled tile that wgmma and TMA access
ROWS, WARP_ROWS = 64, 16  # rows of a warpgroup's accumulators, and of a warp's
WARPGROUP = 128  # threads of a warpgroup
TMA_RANK = 5  # most axes of a tensor map
MBARRIER_BYTES = 8  # bytes of an mbarrier
