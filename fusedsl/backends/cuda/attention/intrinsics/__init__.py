"""Intrinsics of attention kernels: fragments, wgmma, mma.sync, TMA, paged lookups."""
