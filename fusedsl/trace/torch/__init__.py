"""torch's functions on traced tensors."""
