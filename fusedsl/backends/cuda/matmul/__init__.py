"""Products of matrices: schedule, emitter, intrinsics."""

from ..emit.intrinsic import File

_FILE = File("matmul.intrinsics")
k_slice_coordinates = _FILE.maker("k_slice_coordinates", "along", "")
output_coordinates = _FILE.maker("output_coordinates", "part", "")
store_k_slice = _FILE.maker("store_k_slice", "name, along", "at, values")
zero_accumulators = _FILE.maker("zero_accumulators", "name", "")
add_accumulators = _FILE.maker("add_accumulators", "name", "a, b")
multiply_k_slices = _FILE.maker("multiply_k_slices", "name", "left, right, sums")
scatter = _FILE.maker("scatter", "tile, name", "addresses, values, wanted")
udiv64 = _FILE.function("udiv64", "number, divisor")
