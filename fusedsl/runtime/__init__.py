"""Layer 7: arrays of any library, compilation, the cache, launches."""
