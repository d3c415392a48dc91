"""Functions of the kinds of public bug reports: writes that overlap, promotion, special values."""

from __future__ import annotations

import numpy as np
from trades import Trades, shaped

R = np.random.default_rng(21)
REPORTS = Trades()
normal, uniform = shaped(R.standard_normal), shaped(R.random)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5, 5e-324, 1e308])
INTEGERS = R.integers(-128, 128, 40).astype(np.int8)
BIG = np.array([2**53 + 1, -(2**53) - 1, 2**62 + 3, -(2**63), 2**63 - 1, 7])


# -- writes, views, aliases


@REPORTS.add(normal(8))
def alias(x):
    y = x
    y += 1
    return x * 2, y


@REPORTS.add(normal(9))
def view_written(x):
    v = x[1:-1]
    v *= 2
    v[::2] -= 1
    return x, v.sum()


@REPORTS.add(normal(9))
def shifted_onto_itself(x):
    x[1:] = x[:-1]
    x[:4] = x[4:0:-1]
    return x


@REPORTS.add(normal(6, 6))
def transposed_onto_itself(x):
    x += x.T
    x[:] = x[::-1]
    return x


@REPORTS.add(normal(10), normal(10))
def out_backwards(x, y):
    np.add(x, y, out=x[::-1])
    np.multiply(y, y, out=y)
    return x, y


@REPORTS.add(normal(4, 5), normal(5))
def broadcast_in_place(x, r):
    x += r
    x -= x.mean(axis=0)
    x /= x.std(axis=1, keepdims=True)
    return x


@REPORTS.add(normal(30))
def masked_writes(x):
    x[x < 0] *= -1
    x[x > 1] = 1
    x[(x > 0.3) & (x < 0.6)] += 10
    np.copyto(x, 7, where=x > 10.5)
    np.putmask(x, x == 1, x - 2)
    return x


@REPORTS.add(normal(6, 7))
def rows_and_columns_written(x):
    x[2] = x[4]
    x[:, 0] = x[:, -1]
    x[1:3, 2:5] = 0
    x[-1, ::2] = np.arange(4)
    x[..., 3] += 1
    return x, x[::-2, ::-3]


@REPORTS.add(normal(12))
def copies(x):
    a, b = x.copy(), x.reshape(3, 4).copy()
    x *= 3
    return a, b, x.ravel() + a, b.T.copy()


@REPORTS.add(normal(7), R.integers(0, 7, 5))
def repeated_places(x, i):
    x[i] += 1
    x[i] = x[i] * 2
    np.add.at(x, i, 0.5)
    np.maximum.at(x, i, 0)
    return x


@REPORTS.add(normal(5, 4))
def swapped(x):
    x[0], x[1] = x[1].copy(), x[0].copy()
    a, b = x[2], x[3]
    a[:], b[:] = b + 1, a + 1
    return x


# -- dtypes


@REPORTS.add(INTEGERS, INTEGERS.astype(np.uint8), INTEGERS.astype(np.int16))
def small_integers(a, b, c):
    return a + b, -b, np.abs(a), a * a, a // 3, b // np.uint8(7), a % 5, c - b, a / 2, np.sqrt(b), a << 1, b >> 1, ~a


@REPORTS.add(INTEGERS)
def small_sums(a):
    return a.sum(), a.prod(), a.mean(), a.var(), a.cumsum(), np.add.reduce(a, dtype=np.int8), a.max() - a.min(), a @ a


@REPORTS.add(R.random(20) < 0.5, R.random(20) < 0.5)
def booleans(p, q):
    return (
        p + q,
        p * q,
        p ^ q,
        ~p,
        p | q,
        p.sum(),
        p.mean(),
        p > q,
        p + 1,
        p * 1.5,
        p.cumsum(),
        p.all(),
        np.maximum(p, q),
    )


@REPORTS.add(BIG, BIG.astype(np.uint64))
def big_integers(x, u):
    return (
        x + u,
        x > 2**53,
        x == 2**53 + 1,
        x // 10,
        x % 10,
        -x,
        x * 3,
        u // 3,
        u % np.uint64(10),
        x ^ 255,
        u >> 60,
        x / 7,
    )


@REPORTS.add(np.float16([60000, 60000, 6e-8, 1, -1, 2049]))
def halves(x):
    return x.sum(), x + x, x * np.float16(0.5), x.max(), x.astype(np.float32).sum(), x > 1, np.sqrt(np.abs(x)), x + 1


@REPORTS.add(np.float32([0.1, 16777216, 1, 3e38]), np.arange(4))
def mixed_widths(x, n):
    return (
        x + n,
        x * 2,
        x + 0.1,
        x * np.float64(0.1),
        n + 1.5,
        n * np.float32(2),
        x // 1,
        np.float32(1) + n,
        x.astype(int)[:3],
    )


@REPORTS.add(np.array([-7, 7, -8, 8, 0]), np.array([2, -2, 3, -3, 5]))
def divisions(a, b):
    q, r = divmod(a, b)
    return (
        q,
        r,
        np.fmod(a, b),
        a / b,
        np.floor_divide(a, 2.5),
        np.remainder(a, -3),
        a % 2.5,
        np.trunc(a / b),
        round(3.5) * a,
    )


@REPORTS.add(np.uint8([0, 1, 200, 255]))
def bytes_(x):
    return x - 1, x + 1, x * 2, 255 - x, x / 255, (x.astype(np.int16) - 128) ** 2, x.astype(bool), x == 255


@REPORTS.add(uniform(6) * 100)
def conversions(x):
    return (
        x.astype(np.int32),
        x.astype(np.uint8),
        x.astype(np.float16),
        x.astype("f4"),
        np.rint(x).astype(int),
        x.astype(bool),
    )


# -- special values


@REPORTS.add(SPECIAL)
def special_values(x):
    return (
        np.sign(x),
        np.abs(x),
        np.sqrt(x),
        np.signbit(x),
        1 / x,
        np.round(x),
        np.maximum(x, 0),
        np.fmin(x, 1),
        np.clip(x, -1, 1),
    )


@REPORTS.add(SPECIAL)
def special_reductions(x):
    return (
        np.nanmax(x),
        np.nansum(x[2:]),
        x.max(),
        x.argmax(),
        np.fmax.reduce(x),
        np.sort(np.abs(x)),
        np.argsort(x[:3]),
        np.isnan(x).sum(),
    )


@REPORTS.add(SPECIAL, SPECIAL[::-1].copy())
def special_pairs(x, y):
    return (
        x * y,
        x - y,
        x / y,
        np.hypot(x, y),
        np.copysign(x, y),
        x == y,
        x < y,
        np.logaddexp(x, y),
        np.isclose(x, y),
        np.arctan2(x, y),
    )


@REPORTS.add(np.array([0.5, 1.5, 2.5, -0.5, -1.5, 0.49999999999999994, 1e16 + 2]))
def roundings(x):
    return (
        np.round(x),
        np.rint(x),
        np.floor(x),
        np.ceil(x),
        np.trunc(x),
        np.fix(x),
        np.floor(x + 0.5),
        np.round(x, 1),
        x % 1,
    )


@REPORTS.add(np.array([[np.nan, 1, 2], [3, np.nan, 1], [np.nan] * 3]))
def nan_rows(x):
    m = ~np.isnan(x)
    return (
        np.where(m, x, 0).sum(1) / m.sum(1),
        np.nan_to_num(x),
        np.nansum(x, 0),
        x.max(1),
        np.nancumsum(x, 1),
        m.any(1),
    )
