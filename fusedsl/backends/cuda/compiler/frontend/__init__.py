"""Generated files to LLVM without Numba's frontend: types go forwards through the tree, then code is written once.

Numba types and lowers a kernel of five hundred lines in seconds: bytecode, its control flow, overloads of every
operator. Generated files need little of that. They are assignments, calls of intrinsics and loops over a few kinds of
numbers, and an intrinsic says itself of what type it is. What is here means what Numba makes of it (integers widen to
64 bits, float64 literals, …); any other form is `UnsupportedForm`, and left to Numba.
"""

from .lower import lowered
from .source_lines import source_lines, wants_lineinfo
from .unit import Unit
from .values import UnsupportedForm

__all__ = ["Unit", "UnsupportedForm", "lowered", "source_lines", "wants_lineinfo"]
