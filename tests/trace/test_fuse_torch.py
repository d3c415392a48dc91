"""torch's functions, methods, operators and writes in a traced function mean what they mean outside, line by line."""

from __future__ import annotations

import pytest
from fused import check, lines

torch = pytest.importorskip("torch")

LINES = r"""
x + y
x + n
n + m
n + 1
n + 1.5
u + a8
u + n
b + b
b + 1
b + 1.5
b + x
h + x
h + bf
bf + 1.5
h + d
h + n
n / m
n / 2
b / 2
x / n
n // 2
m // n
m % n
x // 0.5
x % 0.7
-x % 0.7
2 - x
2 / x
2 / n
2 // n
2 ** n
2 ** x
n ** 2
x ** 2
p ** 0.5
n ** 0.5
x ** n
p ** x
-x + +x
~n
~b
-n
abs(x)
abs(m)
b & b | b ^ b
n & 3 | n ^ 2
n << 1
n >> 1
x == y
n < 3
n < 2.5
x >= 0
b == 1
x != y
z + x
z + n
z + h
z + 1
z * d
x + z
n * z
x * s
n * s
n * k
x * k
s * z
k * z
k + n
torch.abs(x) + torch.absolute(x)
torch.exp(x)
torch.exp(n)
torch.exp(h)
torch.exp(bf)
torch.exp2(n)
torch.expm1(x)
torch.log(p) + torch.log2(p) + torch.log10(p) + torch.log1p(p)
torch.log(n)
torch.sqrt(n) + torch.rsqrt(n)
torch.sin(x) + torch.cos(n) + torch.tan(q)
torch.asin(q) + torch.acos(q) + torch.atan(q) + torch.arcsin(q) + torch.arccos(q) + torch.arctan(q)
torch.atan2(x, y) + torch.arctan2(x, y)
torch.atan2(n, m)
torch.sinh(x) + torch.cosh(x) + torch.tanh(x)
torch.asinh(x) + torch.acosh(p + 1) + torch.atanh(q)
torch.tanh(u)
torch.erf(x) + torch.erfc(x)
torch.lgamma(p)
torch.sigmoid(x)
torch.sigmoid(n)
torch.sigmoid(b)
torch.logit(q.abs())
torch.special.expit(x) + torch.special.erf(x)
torch.special.xlogy(p, p) + torch.xlogy(x, p)
torch.sinc(x)
torch.floor(x) + torch.ceil(x) + torch.round(x) + torch.trunc(x) + torch.fix(x)
torch.floor(n)
torch.round(x, decimals=2)
torch.round(n)
torch.frac(x)
torch.sign(x)
torch.sign(m)
torch.sign(b)
torch.sgn(x)
torch.signbit(x)
torch.neg(x) + torch.negative(x)
torch.positive(x)
torch.reciprocal(n)
torch.square(n)
torch.square(x)
torch.minimum(x, y) + torch.maximum(x, n)
torch.fmin(x, y) + torch.fmax(x, y)
torch.max(x, y)
torch.min(n, m)
torch.clamp(x, 0, 1)
torch.clamp(x, min=0)
torch.clamp(x, max=y)
torch.clamp(n, 2)
torch.clamp(n, 2.5)
torch.clip(x, -1, 1)
x.clamp(min=0.1)
x.clamp_min(0) + x.clamp_max(0.5)
torch.where(x > 0, x, y)
torch.where(b, n, 1.5)
torch.where(b, x, 0)
torch.where(b, 1, 0)
torch.where(b, 1.0, 0.0)
torch.where(b, n, x)
torch.where(b, x, z)
x.where(b, y)
x.where(b, 0)
torch.isnan(gaps) | torch.isinf(x) & torch.isfinite(x)
torch.isposinf(x) | torch.isneginf(x)
torch.isclose(x, y, rtol=10)
torch.nan_to_num(gaps)
torch.nan_to_num(gaps, 1.0, 2.0, 3.0)
torch.copysign(x, y)
torch.nextafter(x, y)
torch.ldexp(x, n)
torch.hypot(x, y)
torch.fmod(x, y) + torch.remainder(x, y)
torch.fmod(m, n) + torch.remainder(m, n)
torch.floor_divide(m, n)
torch.div(m, n, rounding_mode='trunc')
torch.div(m, n, rounding_mode='floor')
torch.div(x, y, rounding_mode='floor')
torch.div(x, y, rounding_mode='trunc')
torch.div(n, 2)
torch.true_divide(n, 2)
torch.divide(x, y)
torch.add(x, y, alpha=2)
torch.add(n, 1.5)
torch.sub(x, y, alpha=0.5)
torch.subtract(x, y)
torch.rsub(x, 1)
torch.mul(x, y) + torch.multiply(x, y)
torch.pow(x, 2) + torch.pow(2, x) + torch.pow(p, y)
torch.float_power(n, 2)
torch.logaddexp(x, y) + torch.logaddexp2(x, y)
torch.heaviside(x, y)
torch.deg2rad(x) + torch.rad2deg(x)
torch.deg2rad(n)
torch.lerp(x, y, 0.3)
torch.lerp(x, y, w)
torch.addcmul(x, y, y, value=2)
torch.addcdiv(x, y, p, value=0.5)
torch.logical_and(x, y) | torch.logical_or(b, x) ^ torch.logical_xor(b, b) & torch.logical_not(x)
torch.bitwise_and(n, m) | torch.bitwise_or(n, m) ^ torch.bitwise_xor(n, n) + torch.bitwise_not(n)
torch.bitwise_left_shift(n, 1) + torch.bitwise_right_shift(n, 1)
torch.eq(x, y) | torch.ne(x, y) & torch.lt(x, y) | torch.le(x, y) | torch.gt(x, 0) | torch.ge(x, 0)
x.eq(y) | x.lt(0.5)
torch.clone(x)
x.clone()
x.detach()
x.contiguous()
torch.zeros_like(x)
torch.ones_like(x, dtype=torch.int32)
torch.full_like(x, 3)
torch.full_like(n, 3)
torch.empty_like(x).shape[0]
x.new_zeros(3)
x.new_ones((2, 2))
x.new_full((2,), 3.5)
x.new_tensor([1.0, 2.0])
torch.tril(x) + torch.triu(x, 1)
x.tril(-1)
torch.sum(x)
torch.sum(x, 1)
torch.sum(x, dim=(0, 1))
torch.sum(x, dim=1, keepdim=True)
torch.sum(x, axis=1, keepdims=True)
torch.sum(n)
torch.sum(u)
torch.sum(b)
torch.sum(h)
torch.sum(h, dtype=torch.float32)
torch.sum(n, dtype=torch.int32)
x.sum()
x.sum(0)
x.sum(-1, keepdim=True)
x.sum(dim=[0, 1])
x.sum(dtype=torch.float64)
torch.prod(x)
torch.prod(n, 1)
torch.prod(x, 0, keepdim=True)
torch.mean(x)
torch.mean(x, 1)
torch.mean(h)
torch.mean(n, dtype=torch.float32)
torch.mean(x, dim=(0, 1), keepdim=True)
x.mean(-1, keepdim=True)
torch.var(x)
torch.var(x, 1)
torch.var(x, dim=1, correction=0)
torch.var(x, dim=1, unbiased=False)
torch.var(x, False)
torch.var(x, unbiased=False)
torch.var(x, 1, False, True)
x.var(0)
x.var(-1, unbiased=False, keepdim=True)
torch.std(x)
torch.std(x, 1, keepdim=True)
x.std(dim=0, correction=0)
torch.var_mean(x, 1)
torch.std_mean(x, dim=1, correction=0)
torch.max(x)
torch.max(x, 1)
torch.max(x, dim=1, keepdim=True)
torch.min(x, 0)
x.max()
x.max(1)
x.max(dim=-1).values
x.max(-1)[0]
x.min(dim=0).indices
x.max(1, keepdim=True)[0]
torch.amax(x, 1)
torch.amax(x, (0, 1))
torch.amin(x)
x.amax(-1, keepdim=True)
torch.aminmax(x)
torch.any(x)
torch.any(b, 1)
torch.any(u)
torch.all(b)
torch.all(b, dim=0, keepdim=True)
b.any()
b.all(1)
torch.argmax(x)
torch.argmax(x, 1)
torch.argmin(x, dim=0, keepdim=True)
x.argmax(-1)
torch.count_nonzero(x)
torch.count_nonzero(n, dim=1)
torch.nansum(gaps)
torch.nansum(gaps, 1)
torch.nanmean(gaps, 0)
torch.logsumexp(x, 1)
torch.logsumexp(x, dim=(0, 1), keepdim=True)
torch.norm(x)
torch.norm(x, dim=1)
torch.norm(x, p=1, dim=1)
x.norm()
x.norm(2, -1, keepdim=True)
x.norm(dim=1)
torch.linalg.norm(x)
torch.linalg.norm(x, dim=1)
torch.linalg.vector_norm(x, dim=1)
torch.linalg.vector_norm(x, float('inf'))
torch.dist(x, y)
torch.cumsum(x, 0)
torch.cumsum(n, 1)
torch.cumsum(x, dim=1, dtype=torch.float64)
x.cumsum(-1)
torch.cumprod(x, 1)
torch.cummax(x, 1).values
torch.logcumsumexp(x, 1)
torch.cummin(x, 0)[0]
torch.diff(x)
torch.sort(x)
torch.sort(x, dim=-1, descending=True)
torch.sort(x, 0)
x.sort().values
torch.argsort(x)
torch.argsort(x, descending=True)
torch.topk(x, 2)
x.topk(2, dim=-1)
torch.softmax(x, 0)
torch.softmax(x, dim=-1, dtype=torch.float64)
x.softmax(-1)
h.softmax(dim=1)
torch.softmax(n.float(), 1)
F.softmax(x, dim=1)
F.softmax(h, dim=1, dtype=torch.float32)
F.softmin(x, dim=1)
torch.log_softmax(x, 1)
F.log_softmax(x, dim=-1)
x.log_softmax(0)
F.gelu(x)
F.gelu(x, approximate='tanh')
F.gelu(h)
F.gelu(bf)
F.silu(x) + F.mish(x)
F.relu(x) + F.relu6(x) + torch.relu(x) + x.relu()
F.relu(n)
F.leaky_relu(x) + F.leaky_relu(x, 0.2)
F.elu(x) + F.elu(x, 0.5)
F.selu(x) + F.celu(x, 2.0)
F.softplus(x) + F.softplus(x, beta=2, threshold=1)
F.softsign(x) + F.tanhshrink(x) + F.softshrink(x) + F.hardshrink(x)
F.hardtanh(x) + F.hardtanh(x, -0.5, 0.5)
F.hardsigmoid(x) + F.hardswish(x)
F.logsigmoid(x)
F.sigmoid(x) + F.tanh(x)
F.threshold(x, 0.1, 20)
F.glu(x, -1)
F.prelu(x, z)
F.layer_norm(x, (4,))
F.layer_norm(x, [4], w, w, 1e-3)
F.layer_norm(x, x.shape[-1:], weight=w)
F.layer_norm(t, (3, 4))
F.layer_norm(h, (4,))
F.rms_norm(x, (4,))
F.rms_norm(x, (4,), w, 1e-6)
F.group_norm(t, 3)
F.group_norm(t, 1, w[:3], w[:3])
F.batch_norm(x, w, w * w + 1)
F.instance_norm(t)
F.normalize(x, dim=1)
F.normalize(x, p=1.0, dim=0)
F.mse_loss(x, y)
F.mse_loss(x, y, reduction='none')
F.l1_loss(x, y)
F.smooth_l1_loss(x, y, beta=0.5)
F.huber_loss(x, y)
F.binary_cross_entropy(q.abs(), (y > 0).float())
F.binary_cross_entropy_with_logits(x, (y > 0).float())
F.kl_div(x, p, reduction='batchmean')
F.cross_entropy(x, i)
F.cross_entropy(x, i, reduction='none')
F.cross_entropy(x, i, label_smoothing=0.1)
F.cross_entropy(x, i, ignore_index=1)
F.nll_loss(x, i)
F.cosine_similarity(x, y)
F.pairwise_distance(x, y)
F.dropout(x, 0.5, training=False)
F.dropout(x, 0.0)
F.one_hot(i, 4)
F.pad(x, (1, 2))
F.pad(x, (1, 2, 0, 1), value=3.0)
F.pad(t, (1, 1), mode='reflect')
F.embedding(i, x)
torch.outer(w, w)
x.float()
x.double()
x.half()
x.bfloat16()
x.int()
x.long()
x.bool()
x.short() + x.char()
p.byte()
x.to(torch.float64)
x.to(dtype=torch.float16)
x.to('cpu')
x.to('cpu', torch.float64)
x.to(d)
x.type(torch.int64)
x.type_as(d)
x.cpu()
x.to(torch.float16).float()
n.to(torch.uint8)
x.view(-1)
x.view(4, 3)
x.view(2, -1)
x.reshape(2, 6)
x.reshape((2, 6))
torch.reshape(x, (-1,))
x.view(x.size(0), 2, 2)
x.view(*x.shape, 1)
x.view(x.shape)
x.flatten()
torch.flatten(t, 1)
t.flatten(start_dim=0, end_dim=1)
x.unflatten(1, (2, 2))
x.T
x.t()
t.mT
t.permute(2, 0, 1)
t.permute((2, 0, 1))
torch.permute(t, (1, 0, 2))
t.transpose(1, 2)
torch.transpose(t, 0, -1)
torch.swapaxes(t, 0, 1)
t.swapdims(0, 1)
torch.movedim(t, 0, 2)
x.unsqueeze(0)
torch.unsqueeze(x, -1)
one.squeeze()
one.squeeze(0)
torch.squeeze(one, 2)
x.squeeze(0)
w.expand(3, 4)
w.expand(3, -1)
w.expand_as(x)
torch.broadcast_to(w, (3, 4))
torch.broadcast_tensors(x, w)
w.repeat(3)
w.repeat(2, 3)
x.repeat(1, 2)
torch.tile(x, (2, 1))
x.repeat_interleave(2, dim=1)
torch.repeat_interleave(x, 2)
torch.cat([x, y])
torch.cat((x, y), dim=1)
torch.cat([x, n], -1)
torch.concat([x, y], dim=0)
torch.concatenate([x, y], axis=1)
torch.stack([x, y])
torch.stack([x, y], dim=-1)
torch.hstack([x, y]) + torch.vstack([x, y]).sum()
torch.chunk(x, 2, dim=1)
x.chunk(2, -1)
x.split(2, dim=1)
torch.split(x, [1, 3], dim=1)
torch.unbind(x)
x.unbind(1)
torch.tensor_split(x, 2, dim=1)
torch.flip(x, [0])
x.flip(0, 1)
torch.fliplr(x) + torch.flipud(x)
torch.roll(x, 1, 0)
torch.roll(x, (1, 2), dims=(0, 1))
x.roll(1)
x.narrow(1, 1, 2)
x.select(0, 1)
torch.index_select(x, 1, i)
x.index_select(0, i)
torch.gather(x, 1, m % 4)
x.gather(1, i[:, None])
torch.take_along_dim(x, m % 4, dim=1)
torch.take(x, i)
torch.diag(x[:, :3])
torch.diagonal(x)
torch.trace(x[:, :3])
x.masked_fill(b, 0)
x.masked_fill(b, -float('inf'))
torch.masked_fill(x, x > 0, 1.5)
n.masked_fill(b, 7)
x.diagonal()
x[0]
x[-1]
x[0, 1]
x[:, 1:3]
x[::2]
x[..., 0]
x[None]
x[:, None]
x[i]
x[:, i]
x[[0, 2]]
x[i, i]
x[torch.arange(3), i]
x[i[:, None], i]
x.shape
x.size()
x.size(0)
x.size(-1)
x.shape[0]
tuple(x.shape)
x.numel()
x.dim()
x.ndim
x.ndimension()
len(x)
x.dtype
x.device
x.is_floating_point()
torch.is_floating_point(x)
torch.is_tensor(x)
isinstance(x, torch.Tensor)
x.requires_grad
x.is_cuda
x.element_size()
x.nelement()
torch.numel(x)
x / math.sqrt(x.size(-1)) if False else x / x.size(-1) ** 0.5
torch.finfo(x.dtype).min
x.masked_fill(b, torch.finfo(x.dtype).min)
torch.arange(4) * x
torch.arange(x.size(1)) * x
torch.arange(x.shape[1], device=x.device)
torch.arange(0, x.shape[1], 2, dtype=torch.float32)
torch.arange(1, 5) + x
torch.zeros(4) + x
torch.zeros(x.shape)
torch.zeros(3, x.shape[1])
torch.zeros(x.size(0), 4, dtype=x.dtype, device=x.device)
torch.ones(x.size(1), dtype=torch.float64) * x
torch.full((x.size(0), 1), 2.0) * x
torch.full((x.size(0),), 2)
torch.tensor(2.0) * x
torch.tensor([1.0, 2.0, 3.0, 4.0]) * x
torch.tensor(3, dtype=torch.int64) + x
torch.linspace(0, 1, 4) * x
torch.eye(4) + x[0]
torch.meshgrid(w, w, indexing='ij')
x.masked_fill(torch.triu(torch.ones(x.size(0), x.size(1)), diagonal=1).bool(), 0)
torch.add(x, y, out=o)
torch.exp(x, out=o)
def x += 1; return x
def x *= y; return x
def x -= 1; return None
def n += 1; n *= 2; return n
def x.add_(y); return x
def x.mul_(2).add_(1); return x
def x.add_(y, alpha=0.5); return x
def x.sub_(y); x.div_(2); return x
def x.zero_(); return x
def x.fill_(3); return x
def x.copy_(y); return x
def x.clamp_(0, 1); return x
def x.relu_(); return x
def x.exp_(); return x
def x.masked_fill_(b, 0); return x
def x.lerp_(y, 0.5); return x
def x.addcmul_(y, y, value=0.1).addcdiv_(y, p, value=-0.2); return x
def F.relu(x, inplace=True); return x
def x[...] = y; return x
def x[:] = 0; return x
def x[0] = 1; return x
def x[:, 1:] = y[:, 1:]; return x
def x[x < 0] = 0; return x
def x[b] = -1; return x
def r = x.clone(); r[0] = 5; return r
def r = torch.zeros_like(x); r[:, 0] = y[:, 1]; return r
def r = x.sum(); c = r; r += 1; return c
def r = x.t(); r += 1; return x
def v, j = x.max(1); return v * j
def a, c = x.chunk(2, dim=-1); return torch.cat((-c, a), dim=-1)
def c = x - x.mean(-1, keepdim=True); v = x.var(-1, keepdim=True, unbiased=False); return c * torch.rsqrt(v + 1e-5)
def v = x.float().pow(2).mean(-1, keepdim=True); return (x * torch.rsqrt(v + 1e-6)).to(x.dtype) * w
def B, C = x.size(); return x.view(B, 2, C // 2).transpose(1, 2)
def g_, u_ = x.split(2, dim=-1); return F.silu(g_) * u_
def r, c = x.shape; return x.reshape(r * c)
(x, x + 1)
{'a': x + 1, 'b': [n * 2, None]}
[r.sum() for r in x]
sum(r for r in x)
None
s * 2
x.sum() * s
x if x.dim() == 2 else y
x.to(torch.float32) if x.dtype != torch.float32 else x
x if x.is_floating_point() else y
F.gelu(x.float()).type_as(x)
torch.nn.functional.silu(x)
x.softmax(dim=-1).max(dim=-1)
x.exp().sum(-1).log()
(x - x.amax(-1, keepdim=True)).exp()
x.abs().max()
x.pow(2).sum(-1).sqrt()
x.pow(n)
x.sqrt() if False else p.sqrt()
x.mul(y).add(1).div(2).sub(w)
x.logical_and(y).logical_not()
x.isnan() | x.isinf()
x.sigmoid() * x.tanh()
x.unsqueeze(1) - y.unsqueeze(0)
torch.special.logsumexp(x, 1)
torch.special.softmax(x, 1)
x.__rsub__(1)
x.float().round().clamp(-128, 127).to(torch.int8)
torch.logsumexp(n.float(), 0)
torch.unsqueeze(i, 1) == torch.arange(4)
x.new_empty(3).shape[0]
torch.atleast_1d(z)
torch.ones((), dtype=x.dtype) * x
torch.scalar_tensor(2.0) * x
x.mean(dim=(0, 1))
x.square().mean().sqrt()
torch.promote_types(x.dtype, d.dtype) == torch.float64
torch.result_type(x, n) == torch.float32
x.sub(y, alpha=2)
x.ge(0).to(x.dtype)
x.argsort(dim=-1)
n.sum(dtype=torch.float32)
torch.amax(x, dim=[0, 1], keepdim=True)
x.cos().unsqueeze(0).expand(2, -1, -1)
F.linear(x, y)
F.linear(x, y, w[:3])
torch.matmul(x, y.T)
x @ y.T
x @ w
torch.mm(x, y.t())
torch.bmm(t, t.transpose(1, 2))
torch.mv(x, w)
torch.dot(w, w)
torch.einsum('ij,kj->ik', x, y)
torch.einsum('...j->j', [t])
torch.einsum('bij,ij,j->b', t, x, w)
torch.addmm(x[:, :3], x, y.T)
"""


@pytest.mark.parametrize("line", lines(LINES))
def test_a_traced_line_means_what_it_means_outside(line):
    check(line, {"torch": torch, "F": torch.nn.functional}, torch)
