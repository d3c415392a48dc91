"""Elementwise kernels and transposes."""
