"""Kernels as citizens of other libraries' programs."""
