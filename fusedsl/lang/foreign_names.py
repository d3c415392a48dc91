"""Foreign names: functions and keywords of NumPy, torch, FlashAttention and others, with the equivalent to write."""

from __future__ import annotations

from .unavailable import HELP

# Function → an equivalent expression.
EQUIVALENTS = {
    # activations
    "swish": "silu(x)",
    "expit": "sigmoid(x)",
    "logsigmoid": "-softplus(-x)",
    "log_sigmoid": "-softplus(-x)",
    "hardshrink": "where(abs(x) > 0.5, x, 0)",
    "threshold": "where(x <= threshold, value, x)",
    "prelu": "where(x > 0, x, weight * x)",
    "glu": "x[..., : size(x, -1) // 2] * sigmoid(x[..., size(x, -1) // 2 :])",
    "softmin": "softmax(-x, axis=-1)",
    "dropout": "where(uniform(seed, x) < p, 0, x / (1 - p))",
    "swiglu": "silu(x) * y",
    "geglu": "gelu(x) * y",
    "reglu": "relu(x) * y",
    "quick_gelu": "x * sigmoid(1.702 * x)",
    "relu_squared": "square(relu(x))",
    # norms and losses
    "normalize": "x / maximum(norm(x, axis=1, keepdims=True), 1e-12)",
    "vector_norm": "norm(x)",
    "batch_norm": "(x - mean(x, axis=0)) * rsqrt(var(x, axis=0) + eps)",
    "instance_norm": "layer_norm(x, axis=(2, 3))",
    "mse_loss": "mean(square(x - y))",
    "l1_loss": "mean(abs(x - y))",
    "smooth_l1_loss": "mean(where(abs(x - y) < 1, 0.5 * square(x - y), abs(x - y) - 0.5))",
    "huber_loss": "mean(where(abs(x - y) < 1, 0.5 * square(x - y), abs(x - y) - 0.5))",
    "kl_div": "mean(xlogy(y, y) - x * y)",
    "binary_cross_entropy": "-mean(xlogy(y, x) + xlogy(1 - y, 1 - x))",
    "binary_cross_entropy_with_logits": "mean(softplus(x) - x * y)",
    "entropy": "-sum(xlogy(x, x), axis=-1)",
    "zscore": "(x - mean(x, axis=0)) / std(x, axis=0)",
    "standardize": "(x - mean(x)) / std(x)",
    "rms": "sqrt(mean(square(x)))",
    "l1_norm": "sum(abs(x))",
    "l2_norm": "norm(x)",
    "nll_loss": "-mean(take_along_axis(x, i[:, None], 1))",
    "cosine_similarity": "sum(x * y, 1) / (norm(x, 1) * norm(y, 1))",
    "pairwise_distance": "norm(x - y + 1e-6, 1)",
    "dist": "sqrt(sum(square(x - y)))",
    # elementwise
    "clamp": "clip(x, min, max)",
    "masked_fill": "where(mask, value, x)",
    "select": "where(c1, a, where(c2, b, d))",
    "choose": "where(i == 0, a, where(i == 1, b, d))",
    "piecewise": "where(c1, a, where(c2, b, d))",
    "ifelse": "x if mask else y",
    "clamp_min": "maximum(x, min)",
    "clamp_max": "minimum(x, max)",
    "sub": "x - y",
    "rsub": "y - x",
    "mul": "x * y",
    "div": "x / y",
    "neg": "-x",
    "eq": "x == y",
    "ne": "x != y",
    "lt": "x < y",
    "le": "x <= y",
    "gt": "x > y",
    "ge": "x >= y",
    "lshift": "i << 1",
    "rshift": "i >> 1",
    "sqr": "square(x)",
    "exp10": "10.0 ** x",
    "ln": "log(x)",
    "logistic": "sigmoid(x)",
    "xlog1py": "x * log1p(y)",
    "entr": "-xlogy(x, x)",
    "cot": "1 / tan(x)",
    "sec": "1 / cos(x)",
    "csc": "1 / sin(x)",
    "normcdf": "ndtr(x)",
    "cast": "astype(x, float32)",
    "clone": "copy(x)",
    "detach": "copy(x)",
    "sgn": "sign(x)",
    "frac": "x - trunc(x)",
    "modf": "x - trunc(x), trunc(x)",
    "float_power": "float64(x) ** y",
    "isneginf": "x == -inf",
    "isposinf": "x == inf",
    "addcmul": "x + value * a * b",
    "addcdiv": "x + value * a / b",
    "int": "int64(x)",
    "float": "float64(x)",
    # reductions and scans
    "var_mean": "var(x, ddof=1), mean(x)",
    "std_mean": "std(x, ddof=1), mean(x)",
    "avg": "mean(x)",
    "stdev": "std(x)",
    "variance": "var(x)",
    "aminmax": "min(x), max(x)",
    "msort": "sort(x, axis=0)",
    "trapz": "trapezoid(x)",
    "histc": "histogram(x, bins)[0]",
    "isin": "any(x[..., None] == edges, axis=-1)",
    "gradient": "concat([x[1:2] - x[:1], (x[2:] - x[:-2]) / 2, x[-1:] - x[-2:-1]])",
    "ediff1d": "diff(reshape(x, -1))",
    "cov": "d = x - mean(x, axis=-1, keepdims=True); d @ d.mT / (size(x, -1) - 1)",
    "polyval": "(a * x + b) * x + d",
    "kthvalue": "sort(x)[..., k - 1]",
    "allclose": "all(isclose(x, y))",
    "array_equal": "all(x == y)",
    # shapes
    "ravel": "reshape(x, -1)",
    "flatten": "reshape(x, -1)",
    "view": "reshape(x, shape)",
    "moveaxis": "transpose(x, axes)",
    "rollaxis": "transpose(x, axes)",
    "permute": "transpose(x, axes)",
    "unsqueeze": "expand_dims(x, axis)",
    "atleast_1d": "x[None]",
    "atleast_2d": "x[None]",
    "expand": "broadcast_to(x, shape)",
    "broadcast_arrays": "broadcast_to(x, shape(y))",
    "cat": "concat([x, y], axis=0)",
    "append": "concat([x, y], axis=None)",
    "vstack": "concat([x, y], axis=0)",
    "hstack": "concat([x, y], axis=1)",
    "dstack": "concat([x, y], axis=2)",
    "column_stack": "stack([x, y], axis=1)",
    "split": "x[:n], x[n:]",
    "array_split": "x[:n], x[n:]",
    "chunk": "x[:n], x[n:]",
    "unstack": "x[0], x[1]",
    "unbind": "x[0], x[1]",
    "flipud": "flip(x, 0)",
    "fliplr": "flip(x, 1)",
    "rot90": "flip(x.mT, -2)",
    "repeat_interleave": "repeat(x, repeats, axis)",
    "gather": "take_along_axis(x, indices, axis)",
    "index_select": "take(x, indices, axis)",
    "take_along_dim": "take_along_axis(x, indices, axis)",
    "index_add": "scatter_add(x, i, y)",
    "index_copy": "scatter(x, i, y)",
    "index_put": "scatter(x, i, y)",
    "fill_diagonal": "where(iota(x, -2) == iota(x, -1), value, x)",
    "embedding": "w[i]",
    "narrow": "x[1 : 1 + n]",
    "unflatten": "reshape(x, shape)",
    "view_as": "reshape(x, shape(y))",
    "reshape_as": "reshape(x, shape(y))",
    "expand_as": "broadcast_to(x, shape(y))",
    "movedim": "transpose(x, axes)",
    "swapdims": "swapaxes(x, 0, 1)",
    "adjoint": "x.mT",
    "linear": "x @ w.mT + b",
    "mv": "x @ y",
    "matvec": "(x @ y[..., None])[..., 0]",
    "addmm": "b + x @ y",
    "baddbmm": "b + x @ y",
    "ger": "outer(a, b)",
    "addr": "x + a[:, None] * b",
    "kron": "reshape(x[:, None, :, None] * y[None, :, None, :], (size(x, 0) * size(y, 0), -1))",
    "scaled_dot_product_attention": "attention(x, x, x)",
    "diag": "diagonal(x)",
    "len": "size(x, 0)",
    "length": "size(x, 0)",
    "range": "arange(n)",
    "sorted": "sort(x)",
    # array creation
    "empty": "zeros(shape)",
    "empty_like": "zeros_like(x)",
    "identity": "eye(n)",
    "meshgrid": "x[None, :], y[:, None]",
    "indices": "iota(x, axis)",
    "rand": "uniform(seed, shape)",
    "rand_like": "uniform(seed, x)",
    "random": "uniform(seed, shape)",
    "randn": "normal(seed, shape)",
    "randn_like": "normal(seed, x)",
    "bernoulli": "uniform(seed, x) < p",
    "standard_normal": "normal(seed, shape)",
    "randperm": "permutation(seed, n)",
    "shuffle": "x[permutation(seed, size(x, 0))]",
    "exponential": "-log1p(-uniform(seed, shape))",
    "gumbel": "-log(-log(uniform(seed, shape)))",
    "categorical": "argmax(x - log(-log(uniform(seed, x))), axis=-1)",
    "multinomial": "argmax(log(x) - log(-log(uniform(seed, x))), axis=-1)",
    # planned functions, with a replacement until then
    "searchsorted": "sum(edges < x[..., None], axis=-1)",
}

# Function → help, if no single expression is equivalent.
HELP_TEXTS = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), "write conv(x, w, stride, padding, dilation, groups)"),
    **dict.fromkeys(
        ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
        "call the library, and fuse what surrounds it; of few taps, add shifted slices",
    ),
    **dict.fromkeys(
        (
            "max_pool1d",
            "max_pool2d",
            "max_pool3d",
            "avg_pool1d",
            "avg_pool2d",
            "avg_pool3d",
            "lp_pool1d",
            "lp_pool2d",
            "adaptive_avg_pool1d",
            "adaptive_avg_pool2d",
            "adaptive_max_pool1d",
            "adaptive_max_pool2d",
            "fold",
        ),
        "reduce windows of a reshape, max(reshape(x, (size(x, 0), -1, 2)), axis=-1), or join strided slices",
    ),
    **dict.fromkeys(("array", "asarray", "tensor"), "pass the array as an argument, by name"),
    **dict.fromkeys(("real", "imag", "conj"), "pass the parts of complex numbers as two arrays"),
    "angle": "pass the parts of complex numbers as two arrays, and write arctan2(imaginary, real)",
    "nonzero": "write where(mask, x, 0), or a reduction with where=mask",
    **dict.fromkeys(
        ("masked_select", "compress", "extract"), "write where(mask, x, 0), or a reduction with where=mask"
    ),
    **dict.fromkeys(("bucketize", "digitize"), "write sum(edges < x[..., None], axis=-1)"),
    **dict.fromkeys(
        ("fill", "fill_", "zero_"), "nothing is written in place: write full_like(x, value), or zeros_like(x)"
    ),
    **dict.fromkeys(("cuda", "cpu", "contiguous"), "leave it out: a program runs on the device of its arrays"),
    **dict.fromkeys(
        ("jit", "compile", "checkpoint", "no_grad"),
        "leave it out: a program is compiled as a whole, and grad differentiates it",
    ),
    **dict.fromkeys(("contains", "startswith", "endswith"), "there are no strings: compare outside, and pass the mask"),
    "unique": "compare neighbours of sort(x)",
    "cross": "write its components, a[..., 1] * b[..., 2] - a[..., 2] * b[..., 1] and so on",
}

# Keywords of attention in torch, FlashAttention and vLLM → help.
ATTENTION = {
    **dict.fromkeys(("causal", "is_causal"), "write mask='j <= i'"),
    **dict.fromkeys(("window", "sliding_window"), "write mask='(j <= i) & (j > i - w)', w=..."),
    "window_size": "write mask='(j >= i - left) & (j <= i + right)', left=..., right=..., without a side that is -1",
    **dict.fromkeys(
        ("attn_mask", "attention_mask"),
        "write mask='m[b, h, i, j]', m=..., with 0 for an axis of 1; "
        "score='score + m[b, h, i, j]' where it is of numbers",
    ),
    **dict.fromkeys(("key_padding_mask", "padding_mask"), "write mask='keep[b, j]', keep=..., or lengths=..."),
    **dict.fromkeys(("bias", "attn_bias"), "write score='score + bias[h, i, j]', bias=..., at the axes that it has"),
    **dict.fromkeys(("softmax_scale", "sm_scale"), "write scale=..."),
    **dict.fromkeys(("softcap", "logits_soft_cap"), "write score='30 * tanh(score / 30)'"),
    "alibi_slopes": "write score='score + slope[h] * (j - i)', slope=...",
    **dict.fromkeys(("block_mask", "kernel_options"), "leave it out: tiles and schedules follow from mask='...'"),
    "score_mod": "write score='...', an expression of score, b, h, i and j",
    "mask_mod": "write mask='...', an expression of b, h, i and j",
    **dict.fromkeys(
        ("dropout", "dropout_p"),
        "write it as an expression: p = softmax(q @ k.mT * scale); where(uniform(seed, p) < keep, p / keep, 0) @ v",
    ),
    **dict.fromkeys(
        ("sink", "sinks", "s_aux"),
        "write it as an expression: s = q @ k.mT * scale; z = sink[:, None, None]; "
        "m = maximum(max(s, axis=-1, keepdims=True), z); e = exp(s - m); "
        "e / (sum(e, -1, keepdims=True) + exp(z - m)) @ v",
    ),
    **dict.fromkeys(
        ("cu_seqlens", "cu_seqlens_q", "cu_seqlens_k", "cu_seq_lens"), "write offsets=(cu_seqlens_q, cu_seqlens_k)"
    ),
    **dict.fromkeys(("kv_lens", "seq_lens", "seqused_k", "cache_seqlens"), "write lengths=..."),
    **dict.fromkeys(("block_table", "block_tables", "page_table"), "write pages=..."),
    "return_softmax_lse": "write return_lse=True",
    **dict.fromkeys(("max_seqlen_q", "max_seqlen_k"), "leave it out: arrays know how long they are"),
    "enable_gqa": "leave it out: where k and v have fewer heads than q, they are shared by themselves",
}

# Keywords of evaluate in numexpr and pandas → help.
EVALUATE = {
    **dict.fromkeys(
        ("local_dict", "global_dict", "resolvers"), "pass the mapping itself: evaluate(expression, arrays)"
    ),
    **dict.fromkeys(
        ("optimization", "ex_uses_vml", "sanitize", "engine", "parser", "level"),
        "leave it out: there is no such choice",
    ),
    "truediv": "leave it out: / is true division, and // floors",
    "casting": "leave it out: results have NumPy's dtypes; write astype(..., float32) for another",
    "order": "leave it out: results keep the memory order of their arguments, and out= may have any",
    **dict.fromkeys(("target", "inplace"), "write out=... to write into an array"),
}

# Index names of FlexAttention → those of score and mask expressions.
PAIR_INDICES = {"batch": "b", "batch_idx": "b", "head": "h", "head_idx": "h", "q_idx": "i", "k_idx": "j", "kv_idx": "j"}


def equivalent(name: str) -> str | None:
    """The help for another library's function of this name; None if there is none.

    >>> equivalent("ravel")
    'write reshape(x, -1)'
    """
    return f"write {EQUIVALENTS[name]}" if name in EQUIVALENTS else HELP_TEXTS.get(name) or HELP.get(name)
