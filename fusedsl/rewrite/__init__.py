"""Layer 3: laws of arithmetic, and the pass that applies them."""
