"""Products on sm_90: schedule, emitter, intrinsics of wgmma, clusters and split-K."""
