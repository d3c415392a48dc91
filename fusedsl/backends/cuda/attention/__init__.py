"""Attention kernels: schedules, emitters and intrinsics, for Hopper (wgmma, TMA) and for mma.sync."""
