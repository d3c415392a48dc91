"""Rewrites of bodies for CUDA, before they are printed."""
