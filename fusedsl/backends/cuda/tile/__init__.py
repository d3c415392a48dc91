"""Intrinsics that all families use: tiles, thread groups, reductions, cp.async, DSMEM, grid synchronisation."""
