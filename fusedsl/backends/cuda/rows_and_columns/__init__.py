"""Kernels that reduce rows and columns in one reading."""
