"""Derivatives of typed graphs: reverse mode by a rule for each operation; the result is a graph like any other."""
