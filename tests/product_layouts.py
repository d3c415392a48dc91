"""Shapes and layouts of factors, for tests of products by a library."""

import numpy as np

SHAPES = [
    ((5, 7), (7, 3)),
    ((1, 9), (9, 12)),
    ((9, 1), (1, 12)),
    ((33, 17), (17, 2)),
    ((3, 20, 33), (33, 17)),
    ((20, 33), (3, 33, 17)),
    ((2, 1, 20, 33), (3, 33, 17)),
    ((2, 3, 20, 33), (2, 3, 33, 17)),
    ((70, 80), (80, 90)),
]


def layouts(shape, dtype, rng):
    """Arrays of this shape in many layouts."""
    x = rng.standard_normal(shape).astype(dtype)
    yield x
    yield np.asfortranarray(x)
    yield np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    yield rng.standard_normal((*shape[:-1], shape[-1] + 3)).astype(dtype)[..., : shape[-1]]
    yield rng.standard_normal((*shape[:-1], 2 * shape[-1])).astype(dtype)[..., ::2]
    yield rng.standard_normal((3 * shape[0], *shape[1:])).astype(dtype)[::3]
    yield x[..., ::-1]
    yield x[::-1]
    yield np.broadcast_to(x[:1], shape)
    yield np.broadcast_to(x[..., :1], shape)
