"""Finds attention: reductions over products that are never stored."""
