"""NumPy's functions, methods, operators and writes in a traced function mean what they mean outside, line by line."""

from __future__ import annotations

import numpy as np
import pytest
from fused import check, lines

LINES = r"""
np.abs(x)
np.absolute(m)
np.fabs(n)
np.sign(m)
np.sqrt(n)
np.cbrt(x)
np.exp(h)
np.exp2(n)
np.expm1(x)
np.log(p)
np.log2(p)
np.log10(p)
np.log1p(p)
np.sin(x) + np.cos(n) + np.tan(q)
np.arcsin(q) + np.arccos(q) + np.arctan(q)
np.asin(q) + np.acos(q) + np.atan(q)
np.arctan2(x, y)
np.sinh(x) + np.cosh(x) + np.tanh(x)
np.arcsinh(x) + np.arccosh(p + 1) + np.arctanh(q)
np.sinc(x)
np.floor(x) + np.ceil(x) + np.round(x) + np.rint(x) + np.fix(x) + np.trunc(x)
np.floor(n)
np.round(x, 2)
np.around(m, -1)
x.round(1)
np.minimum(x, y)
np.maximum(x, n)
np.fmin(gaps, x) + np.fmax(gaps, x)
np.clip(x, 0, 1)
np.clip(n, 2, None)
np.clip(x, min=0)
x.clip(0)
x.clip(max=0.5)
x.clip(w, 1)
np.clip(x, y, y + 1)
np.clip(h, -1.0, x)
np.where(x > 0, x, 0)
np.where(b, n, 1.5)
np.isnan(gaps)
np.isinf(x) | np.isfinite(gaps)
np.isclose(x, y, rtol=10)
np.isposinf(x)
np.isneginf(x)
np.signbit(x)
np.copysign(x, y)
np.nextafter(x, y)
np.spacing(p)
np.ldexp(x, n)
np.hypot(x, y)
np.fmod(x, y) + np.remainder(x, y) + np.mod(x, y)
np.fmod(m, n) + np.mod(m, n) + m % n
np.floor_divide(x, y)
m // n
x // 0.5
np.divmod(m, n)
divmod(x, y)
divmod(x, 2)
divmod(7, x)
np.power(p, y)
n ** 2
2 ** n
x ** 2
x ** 0.5 if False else p ** 0.5
np.float_power(p, 2)
np.square(x) + np.reciprocal(p)
np.square(u)
np.logaddexp(x, y) + np.logaddexp2(x, y)
np.heaviside(x, 0.5)
np.deg2rad(x) + np.rad2deg(x) + np.degrees(x) + np.radians(x)
np.nan_to_num(gaps)
np.nan_to_num(gaps, nan=3.0, posinf=1)
np.logical_and(x > 0, y > 0) | np.logical_or(b, x) ^ np.logical_xor(b, b) & np.logical_not(x)
np.bitwise_and(n, m) | np.bitwise_or(n, m) ^ np.bitwise_xor(n, 3)
~n + np.invert(n) + np.bitwise_not(n) + np.bitwise_invert(n)
n << 2 | n >> 1
np.left_shift(n, 1) + np.right_shift(n, 1)
np.bitwise_left_shift(n, 1)
np.copy(x)
x.copy()
np.zeros_like(x)
np.ones_like(x, dtype=np.int32)
np.full_like(x, 3)
np.full_like(n, 2.7)
np.full_like(x, 3, dtype=np.float64)
np.empty_like(x).shape
np.zeros_like(x, shape=(2, 2))
np.tril(x)
np.triu(x, 1)
np.tri(3, 4)
np.eye(4) + x[0]
np.identity(4)[0] + w
np.diag(x[:3, :3])
np.diagonal(x)
np.diag(w)
np.trace(x)
x.trace()
np.sum(x)
np.sum(x, axis=1)
np.sum(x, axis=(0, 1))
np.sum(x, 0, keepdims=True)
np.sum(n)
np.sum(u)
np.sum(u, dtype=np.uint8)
np.sum(b)
np.sum(h)
np.sum(h, dtype=np.float32)
np.sum(x, where=b)
x + [1, 2, 3, 4] if x.shape[-1] == 4 else x * [2.0]
np.maximum(x, [[0.5]])
np.dot(x, [0.5] * 4) if x.shape[-1] == 4 else x
np.sum(x, axis=0, initial=3.0, where=b)
np.sum(x, axis=-1, dtype=np.float64)
x.sum()
x.sum(1)
x.sum(axis=(0,), keepdims=True)
x.sum(0, np.float64)
np.prod(n)
n.prod(axis=0)
np.mean(x)
np.mean(n)
np.mean(h)
np.mean(x, dtype=np.float64)
np.mean(x, axis=0, where=b)
x.mean(1)
x.mean(axis=1, keepdims=True)
np.var(x)
np.var(x, ddof=1)
np.var(x, correction=1)
np.var(n, axis=0)
np.var(x, 0, np.float64)
x.var(axis=1, ddof=1, keepdims=True)
np.std(x, axis=0)
x.std()
np.average(x)
np.average(x, axis=1, weights=w)
np.average(x, axis=0)
np.sum([x, y], axis=0)
np.mean([x.sum(), 3.0])
np.max([1, x.shape[0]])
np.cross(x[:, 1:], y[:, 1:], axis=1)
np.cross(t[0], t[1], axis=0)
np.linalg.norm(x, ord=1)
np.linalg.norm(t, ord=-np.inf, axis=(2, 0), keepdims=True)
np.linalg.matrix_norm(t)
np.isin(n, m, invert=True)
np.matvec(x, w)
np.max(x)
np.max(n, axis=1)
np.amax(x, 0)
np.min(x, axis=1, keepdims=True)
np.min(x, initial=0.0)
np.max(x, axis=1, where=b, initial=-9)
x.max()
x.max(1)
x.max(axis=(0, 1))
x.min(axis=-1, initial=0)
x.max(1) - x.min(1)
np.ptp(x)
np.ptp(x, axis=1)
np.any(x)
np.any(b, axis=1)
np.all(b, axis=0, keepdims=True)
b.any()
b.all(axis=1)
np.argmax(x)
np.argmax(x, axis=1)
np.argmin(x, 0, keepdims=True)
x.argmax()
x.argmin(1)
x.argmax(axis=0)
np.nanargmax(gaps, axis=0)
np.count_nonzero(b)
np.count_nonzero(x, axis=1)
np.count_nonzero(n, axis=0, keepdims=True)
np.nansum(gaps)
np.nansum(gaps, axis=1)
np.nanmean(gaps, axis=0)
np.nanmax(gaps, axis=1)
np.nanmin(gaps)
np.nanvar(gaps)
np.nanstd(gaps, axis=1)
np.nanprod(gaps, axis=0)
np.nancumsum(gaps, axis=1)
np.linalg.norm(x)
np.linalg.norm(x, axis=1)
np.linalg.norm(x, axis=1, keepdims=True)
np.linalg.norm(x, ord=1, axis=1)
np.linalg.norm(x, ord=np.inf, axis=1)
np.linalg.norm(w, 3)
np.linalg.vector_norm(x, axis=1)
(np.cov(x), np.cov(x, rowvar=False, bias=True), np.cov(w, ddof=0) + 1, np.corrcoef(n))
(np.piecewise(x, [x < 0, x >= 1], [lambda v: -v, lambda v: v * 2]), np.piecewise(n, [n < 3], [lambda v: v / 2, 7]))
(np.block([[x, y], [w, w]]), np.block([x[0], 1.5]), np.block([[np.ones((2, 2), np.float32), x[:2]], [np.zeros(2), w]]))
(np.convolve(w, [1, 2, 3]), np.convolve(w, w[:2], 'same'), np.convolve(w[:3], x[0], 'valid'))
(np.correlate(x[0], w[:2]), np.correlate(w[:2], x[0], 'full'), np.correlate(x[0], w[:3], 'same'))
def np.fill_diagonal(x, 7); return x
def c = y[y < 0]; y *= 2; return c.sum()
def t[..., b[0]] = 1; t[0, b] = 2; t[:, b[:, 0], 1] = 3; t[1:, ~b] = 4.5; return t
def y[y < 0] *= 0.5; y[b] = y[b] ** 2 + x[b]; x[b[:, 0]] -= 1
(x[b].sum(), x[b].mean(), np.mean(np.abs(x[~b] - y[~b])), np.max(n[b]), x[b].std(ddof=1), x[b[:, 0]].sum(axis=0))
(np.extract(x > 0, x).max(), np.compress(w > 0, w, axis=0).sum(), x[b].clip(0, 1).astype(np.float64).min())
np.cumsum(x)
np.cumsum(x, axis=1)
np.cumsum(u, axis=0)
np.cumsum(x, 0, np.float64)
x.cumsum()
x.cumsum(axis=1)
np.cumprod(x, axis=0)
x.cumprod(1)
np.cumulative_sum(w)
np.cumulative_sum(x, axis=1, include_initial=True)
np.diff(x)
np.diff(x, axis=0)
np.diff(x, n=2)
np.diff(w, prepend=0)
np.ediff1d(w)
np.gradient(w)
np.trapezoid(x, axis=1)
np.add.reduce(x)
np.add.reduce(x, axis=None)
np.add.reduce(x, axis=1, keepdims=True)
np.maximum.reduce(x, axis=1)
np.minimum.reduce(x)
np.multiply.reduce(x, 1)
np.logical_and.reduce(b, axis=1)
np.logical_or.reduce(b)
np.add.accumulate(x, axis=1)
np.multiply.accumulate(x)
np.maximum.accumulate(x, axis=1)
np.minimum.accumulate(x)
np.multiply.outer(w, w)
np.add.outer(x[0], y[:, 0])
np.subtract.outer(x, w)
np.maximum.outer(w, w)
x.reshape(4, 3)
x.reshape((4, 3))
x.reshape(-1)
x.reshape(2, -1)
np.reshape(x, (2, 6))
np.reshape(x, -1)
x.reshape(x.shape[1], x.shape[0])
x.reshape(4, 3, order='F')
np.ravel(x)
x.ravel()
x.flatten()
x.ravel('F')
x.T
x.T.copy()
x.transpose()
t.transpose(2, 0, 1)
t.transpose((1, 0, 2))
np.transpose(t, (0, 2, 1))
t.mT
np.matrix_transpose(t)
np.permute_dims(t, (2, 1, 0))
t.swapaxes(0, 2)
np.swapaxes(t, 1, -1)
np.moveaxis(t, 0, -1)
np.moveaxis(t, [0, 1], [-1, -2])
np.rollaxis(t, 2)
np.expand_dims(x, 0)
np.expand_dims(x, (0, -1))
np.squeeze(one)
one.squeeze()
one.squeeze(0)
np.squeeze(one, axis=(0, 2))
np.atleast_1d(x)
np.atleast_2d(w)
np.atleast_3d(x)
np.broadcast_to(w, (3, 4))
np.broadcast_to(w, x.shape)
np.broadcast_arrays(x, w)
np.concatenate([x, y])
np.concatenate((x, y), axis=1)
np.concatenate([x, n], axis=-1)
np.concatenate([x, y], axis=None)
np.concat([x, y])
np.stack([x, y])
np.stack((x, y), axis=-1)
np.vstack([x, w])
np.hstack([x, y])
np.dstack([x, y])
np.column_stack([w, w])
np.append(x, y, axis=0)
np.append(w, 1.0)
np.split(x, 2, axis=1)
np.array_split(w, 3)
np.hsplit(x, 2)
np.unstack(x)
np.flip(x)
np.flip(x, 0)
np.flip(x, axis=(0, 1))
np.fliplr(x) + np.flipud(x)
np.rot90(x)
np.roll(x, 1)
np.roll(x, 1, axis=0)
np.roll(x, (1, 2), axis=(0, 1))
np.repeat(x, 2)
np.repeat(x, 2, axis=1)
x.repeat(3, axis=0)
np.repeat(w, [1, 2, 0, 1])
np.tile(w, 2)
np.tile(x, (2, 2))
np.pad(x, 1)
np.pad(x, ((1, 0), (0, 2)), constant_values=3)
np.pad(x, 1, mode='edge')
np.pad(x, (1, 1), 'reflect')
np.pad(w, 2, mode='wrap')
np.outer(w, w)
np.inner(w, w)
np.vdot(x, y)
np.vecdot(x, y)
np.kron(w, w)
np.take(x, i, axis=1)
np.take(x, [0, 2], axis=1)
np.take(x, 5)
x.take(i)
x.take(1, axis=0)
x.take([1, 2], 1)
np.take_along_axis(x, n % 3, axis=0)
np.take_along_axis(x, np.argsort(x, axis=1), axis=1)
np.choose(n % 2, [x, y])
np.select([x > 0, x < -1], [x, y], 0.0)
np.sort(x)
np.sort(x, axis=-1)
np.sort(x, axis=0)
np.argsort(x)
np.argsort(x, axis=0)
np.sort(np.partition(x, 1, axis=0), 0)
np.argsort(-x, kind='stable')
x.astype(np.float64)
x.astype('float16')
x.astype(int)
x.astype(np.int8)
x.astype(bool)
x.astype(y.dtype)
np.astype(x, np.float64)
n.astype(np.uint8)
x.dtype == np.float32
x[0]
x[-1]
x[0, 1]
x[1:]
x[:, 1:3]
x[::2, ::-1]
x[..., 0]
x[None]
x[:, None, :]
x[np.newaxis, ...]
x[i]
x[[0, 2]]
x[:, [0, 2]]
x[:, i]
x[i, i]
x[[0, 1], [1, 2]]
x[i][:, i]
x[np.arange(3), i]
x[1:, i]
x[i[:, None], i]
x[[True, False, True]]
x[-1, ...]
x[()]
x[slice(1, 3)]
t[:, 0, i]
x[i[0]]
x[k]
x[k - 1:]
x + 1
1 + x
x - 1.5
2 - x
x * s
s * x
x / 2
2 / x
n / 2
n + 1.5
u + 1
u * 2 - 3 if False else u
h + 1.5
h * x
x + n
n + m
u + a8
b + b
b * x
b & b | b ^ b
~b
-x + +x
abs(x)
x == y
x != 0
x < y
x >= 0.5
(x > 0) & (x < 1)
x + z
n + z
h + z
h + g
x * g
n * g
g * 2
g * x
z * 2
z + s
x + np.float64(1)
h + np.float64(2)
x + np.int64(3)
x + True
u + np.uint8(3)
x % 1
-5 % n
round(x, 1) if False else x
x.real + x.imag
np.real(x)
np.iscomplexobj(x)
x.ndim + x.size
x.nbytes
x.itemsize
np.shape(x)
np.ndim(x)
np.size(x, 1)
len(x)
np.result_type(x, np.float64)
x.astype(np.result_type(x, k, 2.5))
np.can_cast(x.dtype, np.float64)
np.issubdtype(x.dtype, np.floating)
np.isrealobj(x)
np.isscalar(x)
np.iterable(x)
isinstance(x, np.ndarray)
np.finfo(x.dtype).eps
np.array(x)
np.asarray(x)
np.asarray(x, dtype=np.float64)
np.array(x, dtype=np.float16)
np.array([s, 2.0])
np.array([1.0, 2.0, 3.0, 4.0]) * x
np.asarray([x, y])
np.array([x, y])
np.array([x.sum(), x.max()])
np.ascontiguousarray(x.T)
np.asanyarray(x)
np.asfortranarray(x)
np.float32(s) * x
np.float64(2) * x
np.arange(4) * x
np.arange(x.shape[1]) * x
np.arange(x.shape[1], dtype=np.float32) * x
np.arange(0, x.shape[1], 2)
np.arange(4.0) + x
np.linspace(0, 1, 4) * x
np.linspace(0, 1, x.shape[1]) * x
np.zeros(x.shape)
np.zeros(4) + x
np.ones((3, 4), dtype=x.dtype) * x
np.full((3, 4), s)
np.full(x.shape, 2)
np.full(4, x[0])
np.empty(x.shape, x.dtype).shape
np.indices(x.shape)
np.meshgrid(w, w)
np.ones_like(x) * np.pi * np.e
np.add(x, y)
np.add(x, 1, dtype=np.float64)
np.add(x, y, where=b, out=o)
np.add(x, y, out=o)
np.exp(x, out=o)
np.exp(x, o)
np.add(x, y, o)
np.multiply(x, 2, casting='same_kind')
np.cumsum(x, axis=1, out=o)
np.clip(x, 0, 1, out=o)
np.divide(x, y, out=o, where=y != 0)
np.modf(x)
np.positive(x) + np.negative(x)
np.true_divide(x, 2) + np.divide(x, 2)
np.equal(x, y) | np.not_equal(x, y) | np.greater(x, y) | np.less_equal(x, 0)
np.var(x, axis=1) + np.mean(x, axis=1) * np.std(x)
np.polyval([1.0, 2.0, 3.0], x)
np.max(x, axis=1, keepdims=True) + x
np.dot(x, 2)
np.dot(2, x)
x.dot(2)
np.cumsum(b)
np.mean(b)
np.mean(b, axis=1)
np.std(u)
np.sum(e)
np.mean(e, axis=1)
np.sum(e, axis=0)
np.prod(e)
e + 1
e.max(axis=1)
np.max(h) + np.min(h)
np.angle(x)
np.conj(x)
x.conj()
x.squeeze()
x.any()
x.all(axis=1)
x.diagonal()
x.cumprod(axis=0)
x.std(axis=0, ddof=1)
x.prod()
x.sum(axis=None, keepdims=True)
x.mean((0, 1))
np.sum(a=x, axis=0)
np.transpose(a=x)
np.reshape(x, shape=(4, 3))
np.sum(x, 0, None, None, True)
(x.sum(), x.max(1))
[x, x + 1]
{'a': x + 1, 'b': (x, None), 'c': [1, x.T]}
None
(x + 1,)
x
(x, x)
3
s * 2
k + 1
s
(x + k, k * 2)
x.shape
x.shape[0] * 2
[r.sum() for r in x]
[c * 2 for c in x.T]
sum(x)
max(x.shape)
sum(r for r in x)
[x[j] for j in range(x.shape[0])]
[a + c for a, c in zip(x, y)]
tuple(x[0])
x if x.ndim == 2 else None
x if x.shape[0] > 2 else y
x if k > 1 else y
x * (k if s > 1 else 3)
x.reshape(k, -1)
np.sum(x, axis=k - 1)
np.full((k, 2), s)
f'{x.shape}'
f'{s:.2f} {k}'
str(x.dtype)
def x += 1; return x
def x *= y; return x
def x -= 1; return None
def x /= 2; return x
def n += 1; n *= 2; n //= 2; return n
def n <<= 1; n |= 1; return n
def x **= 2; return x
def x[...] = y; return x
def x[:] = 0; return None
def x[:] = w; return x
def x[1:] = y[1:]; return x
def x[0] = 1; return x
def x[:, 1] = w[0]; return x
def x[1:, ::2] += 1; return x
def x[x < 0] = 0; return x
def x[b] = -1; return x
def x[np.isnan(x)] = 0; return x
def r = x.copy(); r[0] = 5; return r
def r = np.zeros_like(x); r[1:-1] = x[2:] + x[:-2]; return r
def r = np.zeros((3, 4)); r[:] = x; return r
def r = np.empty_like(x); r[:, 0] = x[:, 1]; r[:, 1:] = 3; return r
def r = x.T; r += 1; return x
def r = x[0]; r *= 2; return x
def r = x + 0; r += 1; return r
def x.fill(2); return x
def x.sort(); return x
def np.copyto(x, y); return x
def np.copyto(x, y, where=b); return x
def np.putmask(x, b, y); return x
def np.add(x, y, out=x); return x
def g += 1; return g
def s += 1; return x * s
def z += 1; return z
def o[...] = x @ y.T if False else x; return o
def a, c = x[0], x[1]; return a + c
def x, y = y, x; return x - y
def r = []; [r.append(x * j) for j in range(3)]; return r
def r = {}; r['k'] = x; return r
def r = 0; r = r + x.sum() * 2; r += 1; return r
def x[0, 1] = 9; return x
def x[0, 1] += 9; return x
def x[..., -1] = 1; return x
def x.T[0] = 1; return x
np.dot(w, w)
w.dot(w)
w @ w
x @ w
np.matmul(x, y.T)
np.dot(x, y.T)
x.dot(y.T)
np.einsum('ij,ij->i', x, y)
np.einsum('ij->ji', x)
np.einsum('ij,kj,kl->il', x, y, x)
np.einsum('i...->...', x, dtype='f8')
np.outer(x, k)
np.outer(w, [1, 2])
np.nanmin(u, 1)
def np.isposinf(x / 0, b); return b
np.angle(x, True)
np.einsum(x, [0, 1], y, [2, 1], [0, 2])
x @ w * 2
x.device
x.to_device('cpu') + 1
x.__array_namespace__().sum(x, axis=0)
def xp = x.__array_namespace__(); return xp.concat([xp.acos(q), xp.astype(n, xp.float32)], axis=1)
def xp = x.__array_namespace__(); return xp.permute_dims(xp.clip(xp.pow(p, 2), 0, 1), (1, 0)), xp.var(x, correction=1)
def xp = x.__array_namespace__(); return xp.where(xp.isnan(x), xp.asarray(0.0), xp.zeros(x.shape) + xp.pi)
def xp = x.__array_namespace__(); return xp.linalg.vector_norm(x, axis=-1), xp.matmul(x, y.mT), xp.vecdot(x, y)
np.sum(x, axis=0, out=o[0])
"""


@pytest.mark.parametrize("line", lines(LINES))
def test_a_traced_line_means_what_it_means_outside(line):
    check(line, {"np": np})
