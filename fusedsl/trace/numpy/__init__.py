"""NumPy's functions on traced arrays."""
