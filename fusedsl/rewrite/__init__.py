"""Layer 3: laws of arithmetic, online reductions, interval analysis."""
