"""torch's losses, products, rearrangements and run-time arguments in a traced function, line by line."""

from __future__ import annotations

import pytest
from fused import check, lines

import fusedsl as fd

torch = pytest.importorskip("torch")

LINES = r"""
F.mse_loss(x, y, weight=p)
F.l1_loss(x, y, weight=p)
F.l1_loss(x, y, size_average=False)
F.cross_entropy(x, i, reduce=False)
F.threshold(gaps, 0.1, 20)
F.softmax(x)
F.softmax(x.sum(), 0)
F.prelu(z, w[:1])
F.cosine_similarity(x[:, None], y[None], dim=-1)
F.triplet_margin_loss(x, y, x * y, margin=0.3, p=1, swap=True, reduction='none')
F.triplet_margin_with_distance_loss(x, y, x * y, distance_function=lambda a, c: (a - c).abs().sum(-1))
F.margin_ranking_loss(x, y, x.sign(), margin=0.2)
F.hinge_embedding_loss(x, y.sign(), margin=0.8)
F.cosine_embedding_loss(x, y, torch.tensor([1, -1, 1]), margin=0.1)
F.gaussian_nll_loss(x, y, p[:, :1], full=True)
F.gaussian_nll_loss(x, y, p[:, 0], reduction='none')
F.poisson_nll_loss(x, p * 3, full=True)
F.poisson_nll_loss(p, p, log_input=False, reduction='sum')
F.soft_margin_loss(x, y.sign())
F.multilabel_soft_margin_loss(x, b.float(), weight=p)
F.multi_margin_loss(x, i, p=2, weight=w.abs())
F.multi_margin_loss(x[0, 0], i[0] * 0)
F.multi_margin_loss(x[0, 0], i[0] * 0, reduction='none')
F.cosine_similarity(x[0, 0], y[0, 0], dim=-1)
torch.Tensor.__rtruediv__(p, 2) + torch.Tensor.__getitem__(x, (slice(None), 0))[:, None]
F.pixel_shuffle(t.view(4, 3, 2), 2)
F.pixel_unshuffle(t.view(3, 4, 2), 2)
F.channel_shuffle(t.view(2, 6, 2), 3)
F.avg_pool1d(t, 2)
F.avg_pool2d(t, (3, 2), stride=(1, 2), padding=(1, 0))
F.avg_pool2d(t, 3, 2, 1, count_include_pad=False)
F.avg_pool2d((t * 9).long(), 2, divisor_override=-2)
F.avg_pool1d((t * 9).long(), 3, 1, 1, count_include_pad=False)
t.mH @ t
torch.gather(w, 0, torch.tensor(2))
torch.index_select(x, 1, torch.tensor(2))
torch.index_select(x[0, 0], 0, torch.tensor([0]))
(t.abs() * 9).to(torch.uint8).sum_to_size(3, 1)
(t * 9).long()[0, 0, 0].to(torch.int8).sum_to_size(())
torch.addbmm((t[0, :2, :2].abs() * 9).byte(), (t.abs() * 9).byte()[:, :2], (t.abs() * 9).byte().mT[..., :2])
F.max_pool2d(t, 2, 1, padding=1, dilation=2)
F.max_pool3d(t[None], (1, k, k))
F.max_pool2d(t, 2, 2, padding=1, ceil_mode=True)
F.avg_pool2d(t, (2, 3), (3, 2), (1, 1), ceil_mode=True)
F.avg_pool1d(t, 2, 2, 1, ceil_mode=True, count_include_pad=False)
F.adaptive_avg_pool2d(t, (1, 1))
F.adaptive_avg_pool2d(t[None], (2, None))
F.adaptive_max_pool1d(t, 2)
F.local_response_norm(t, 2, alpha=0.1)
F.unfold(t, (2, 3), padding=1, stride=2)
t.unfold(1, 2, 1)
F.interpolate(t, scale_factor=2)
F.interpolate(t[None], (5, 3), mode='nearest-exact')
F.interpolate(t[None], scale_factor=1.5, mode='bilinear')
F.interpolate(t, 6, mode='linear', align_corners=True)
F.interpolate(t, 2, mode='area')
(torch.cov(x), torch.corrcoef(n), torch.cov(w))
torch.cumulative_trapezoid(x, dim=0)
torch.msort(x)
x[tuple(torch.triu_indices(x.shape[0], x.shape[1], 1))]
def m = x > 0; return (x[m] - y[m]).pow(2).mean(), torch.relu(y[m]).sum(), x[b[:, 0]].mean(0), x[b].std(), n[b].sum()
def x[x < 0] *= 0.5; y[b] = x[b].exp()
(F.mse_loss(x[b], y[b]) + F.l1_loss(x[b], y[b], reduction='sum'), torch.masked_select(x, b).max())
x.index_fill(1, i, -1.0)
x + torch.zeros(torch.broadcast_shapes(x.shape, w.shape))
torch.arange(0.1, -7.9, -4.0, dtype=torch.int64)
x.bfloat16() * torch.tensor(2.0)
(lambda add: add(x, y))(torch.Tensor.add)
def w.abs_(); return F.batch_norm(t.mT, w, w * 2, None, None, True, 0.3)
F.adaptive_max_pool1d(t, 1)
torch.cdist(x, y, p=1)
torch.sign(gaps)
torch.cummax(n.float(), 1)
torch.cummin(gaps, dim=0)
torch.linalg.norm(x, ord=1)
torch.linalg.norm(x, 'fro')
torch.linalg.norm(t, dim=(0, 2), ord=float('inf'), keepdim=True)
torch.linalg.matrix_norm(t)
torch.inner(x, y)
torch.tensordot(t, x, dims=([1, 2], [0, 1]))
torch.kron(x, w[:2])
torch.linalg.multi_dot([x, y.T, x])
torch.linalg.cross(x[:, :3], y[:, :3])
torch.cross(x, y)
torch.linalg.vecdot(x, y)
torch.addmv(x[:, 0], x, w, beta=0)
torch.addr(x, x[:, 0], w, alpha=0.5)
torch.diag(w, 1)
torch.diag_embed(x, -1, 0, 2)
torch.rot90(x, 3)
torch.column_stack((x[0], x[1]))
torch.dstack((x, y))
torch.atleast_3d([x[0], z])
torch.hsplit(t, (1, 2))
torch.select_scatter(x, w, 0, 1)
torch.slice_scatter(x, y[:, :2], 1, 1, 3)
torch.isin(n, m[0])
torch.trapezoid(x, dx=0.5)
torch.trapezoid(y, x[0].sort().values)
torch.trace(u[:, :3])
torch.cat((x, e[:, 0]), 1)
torch.take_along_dim(x, i)
torch.special.entr(p)
torch.special.xlog1py(x, p)
torch.special.ndtr(x)
torch.angle(gaps)
torch.angle(d)
torch.diag(b[0])
torch.linspace(2, 5, x.shape[0] - 2)
torch.linspace(4.3, 0, x.shape[0] * 5, dtype=torch.int32)
torch.eye(x.shape[0], x.shape[1]) * x
torch.linspace(0.5, 2, x.shape[1]) * x
torch.arange(0, s, 0.5)
torch.permute(x, dims=(1, 0))
x.flip(dims=(1,))
x.sum_to_size(1, 4)
x.type()
x.type('torch.DoubleTensor')
z.sum(-1, keepdim=True) + z.max(0).values
(z.sort(), z.argmax(0))
x.narrow(k - 1, k - 1, k)
x.unsqueeze(k)
torch.topk(x, k, k - 1)
F.glu(x, k - 1)
torch.ops.aten.add.Tensor(x, y, alpha=2)
torch.Tensor.add(x, y) + torch.Tensor.__radd__(x, 2) + torch.Tensor([1.0])
F.scaled_dot_product_attention(t, t, t, attn_mask=torch.ones(3, 3).tril(-1).bool())
F.scaled_dot_product_attention(t, t, t, attn_mask=torch.full((3, 3), -float('inf')).triu(0))
F.scaled_dot_product_attention(t.repeat(2, 1, 1), t, t, is_causal=True, enable_gqa=True)
F.scaled_dot_product_attention(t.repeat(2, 1, 1), t, t, t.repeat(2, 1, 1)[..., :3] > 0, enable_gqa=True)
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("line", lines(LINES))
def test_a_traced_line_means_what_it_means_outside(line):
    check(line, {"torch": torch, "F": torch.nn.functional}, torch)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda x: torch.nn.functional.pad(x, (1, 1, 0)), "pad has 3 widths"),
        (lambda x: torch.nn.functional.max_pool2d(x[None], 4), "a window of 4 over 3 elements"),
        (lambda x: torch.nn.functional.max_pool2d(x[None], 2, return_indices=True), "return_indices is not supported"),
        (lambda x: x.squeeze_(), "squeeze_ changes the shape"),
        (lambda x: torch.masked.sum(x, mask=x > 0), "torch.masked.sum cannot be traced"),
        (lambda x: torch.norm(x, "nuc"), "norm 'nuc' is not supported"),
        (lambda x: torch.linalg.matrix_norm(x, 2), "matrix norm 2 is not supported"),
        (lambda x: torch.nn.functional.gumbel_softmax(x), "draws random numbers"),
        (lambda x: torch.vmap(torch.sum)(x), "torch.vmap in a traced function is not supported"),
        (lambda x: torch.equal(x, x), "needs the truth of an array"),
        (lambda x: x.type("torch.QuaternionTensor"), "there is no tensor type"),
    ],
)
def test_what_has_no_answer_is_refused_by_name(function, told):
    with pytest.raises(fd.FusedslError, match=told):
        fd.fuse(function)(torch.ones(3, 3))


@pytest.mark.parametrize("other", [torch.bool, torch.uint8, torch.int16, torch.float16])
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int64, torch.float16, torch.float32])
def test_what_scales_an_operand_has_no_part_in_the_dtype(dtype, other):
    x, y = torch.tensor([1, 2, 3]).to(dtype), torch.tensor([1, 0, 5]).to(other)
    found, expected = fd.fuse(lambda a, b: torch.add(a, b, alpha=2))(x, y), torch.add(x, y, alpha=2)
    assert found.dtype == expected.dtype and torch.equal(found, expected)


@pytest.mark.parametrize("weight", [torch.float16, torch.float32, torch.float64])
def test_a_number_that_weighs_has_no_part_in_the_dtype(weight):
    x, w = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float16), torch.tensor(0.5, dtype=weight)
    found, expected = fd.fuse(lambda a, b: torch.lerp(a, a * 2, b))(x, w), torch.lerp(x, x * 2, w.to(x.dtype))
    assert found.dtype == expected.dtype and torch.equal(found, expected)


def test_numbers_that_are_no_integers_scale_floats_alone():
    with pytest.raises(fd.DTypeError, match="alpha is"):
        fd.fuse(lambda a: torch.add(a, a, alpha=2.0))(torch.tensor([1, 2]))


Q, K = torch.ones(2, 4, 6, 8), torch.ones(2, 4, 10, 8)
MASK = torch.ones(6, 10)
UNLIKE = {
    "a mask beside is_causal": ((Q[0], K[0], K[0], MASK > 0, 0.0, True), fd.ArgumentError),
    "integers": ((Q.int(), K.int(), K.int()), fd.DTypeError),
    "float8": (tuple(x.to(torch.float8_e4m3fn) for x in (Q, K, K)), fd.DTypeError),
    "keys of another type": ((Q, K.half(), K.half()), fd.DTypeError),
    "values of another type": ((Q, K, K.half()), fd.DTypeError),
    "a narrower mask": ((Q, K, K, MASK.half()), fd.DTypeError),
    "a mask of integers": ((Q, K, K, MASK.int()), fd.DTypeError),
    "a mask of float64": ((Q.half(), K.half(), K.half(), MASK.double()), fd.DTypeError),
    "a list": ((Q, K, K, [[True]]), fd.ArgumentError),
    "a mask of more batches": ((Q[:1], K[:1], K[:1], MASK.expand(3, 1, 6, 10) > 0), fd.ShapeError),
    "is_causal as a number": ((Q, K, K, None, 0.0, 1), fd.ArgumentError),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_attention_refuses_what_torch_refuses(name):
    operands, kind = UNLIKE[name]
    attend = torch.nn.functional.scaled_dot_product_attention
    with pytest.raises((RuntimeError, TypeError, NotImplementedError)):
        attend(*operands)
    with pytest.raises(kind):
        fd.fuse(lambda *given: attend(*given))(*operands)


def test_heads_that_are_shared_are_asked_for():
    attend = torch.nn.functional.scaled_dot_product_attention
    with pytest.raises(fd.ShapeError, match="pass enable_gqa=True"):
        fd.fuse(lambda q, k: attend(q, k, k))(Q, K[:, :2])


def test_a_float32_mask_leaves_attention_its_type():
    attend, half = torch.nn.functional.scaled_dot_product_attention, Q.half()
    found = fd.fuse(lambda q, mask: attend(q, q, q, mask))(half, torch.ones(6, 6).tril().log())
    assert found.dtype is torch.float16
