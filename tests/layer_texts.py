"""Texts of layers and of what is around them, as models write them: projections, gates, routers, logits, patches."""

from __future__ import annotations

from model_texts import ModelText

LAYER_TEXTS = (
    ModelText(
        "queries, keys and values, rotated and normalised",
        (
            "f(x, c, s) = concat([x[...,:32]*c - x[...,32:]*s, x[...,32:]*c + x[...,:32]*s], -1)\n"
            "q=einsum('bsd,dhk->bhsk',x,wq); "
            "k=einsum('bsd,dhk->bhsk',x,wk); "
            "v=einsum('bsd,dhk->bhsk',x,wv); "
            "attention(bfloat16(rms_norm(f(q,c,s),g)), bfloat16(rms_norm(f(k,c,s),h)), v, mask='j <= i')"
        ),
        {
            "x": (2, 512, 1024),
            "wq": (1024, 8, 64),
            "wk": (1024, 2, 64),
            "wv": (1024, 2, 64),
            "c": (512, 32),
            "s": (512, 32),
            "g": (64,),
            "h": (64,),
        },
        5,
        True,
    ),
    ModelText(
        "latent attention",
        (
            "c = x@wd; "
            "k = einsum('bsl,lhd->bhsd',c,wk); "
            "v = einsum('bsl,lhd->bhsd',c,wv); "
            "q = einsum('bsm,mhd->bhsd',x,wq); "
            "o = attention(q,k,v,mask='j <= i'); "
            "einsum('bhsd,hdm->bsm',o,wo)"
        ),
        {
            "x": (2, 512, 1024),
            "wd": (1024, 128),
            "wk": (128, 8, 64),
            "wv": (128, 8, 64),
            "wq": (1024, 8, 64),
            "wo": (8, 64, 1024),
        },
        5,
        True,
    ),
    ModelText(
        "latent attention, absorbed",
        (
            "q = einsum('bsm,mhl->bhsl',x,wq); "
            "c = (x@wd)[:,None]; "
            "o = attention(q, c, c, mask='j <= i'); "
            "einsum('bhsl,hlm->bsm',o,wo)"
        ),
        {"x": (2, 512, 1024), "wd": (1024, 128), "wq": (1024, 8, 128), "wo": (8, 128, 1024)},
        4,
        True,
    ),
    ModelText(
        "LoRA of queries and values",
        "return x@wq + (x@aq)@bq*2, x@wk, x@wv + (x@av)@bv*2",
        {
            "x": (1024, 512),
            "wq": (512, 512),
            "wk": (512, 512),
            "wv": (512, 512),
            "aq": (512, 16),
            "bq": (16, 512),
            "av": (512, 16),
            "bv": (16, 512),
        },
        4,
        False,
    ),
    ModelText(
        "a router of experts",
        ("p = softmax(x @ w); s = sort(p)[:, -2:]; return s / sum(s, -1, keepdims=True), argsort(p)[:, -2:]"),
        {"x": (1024, 512), "w": (512, 16)},
        5,
        False,
    ),
    ModelText(
        "a gated layer, GEGLU",
        "(gelu(x@g) * (x@u)) @ d",
        {"x": (1024, 512), "g": (512, 1408), "u": (512, 1408), "d": (1408, 512)},
        2,
        False,
    ),
    ModelText(
        "a gated layer of joined weights",
        ("h = x@w; (silu(h[:, :1024]) * h[:, 1024:]) @ d"),
        {"x": (1024, 512), "w": (512, 2048), "d": (1024, 512)},
        2,
        False,
    ),
    ModelText(
        "cross attention",
        (
            "q=einsum('bsd,dhk->bhsk',x,wq); "
            "k=einsum('btd,dhk->bhtk',y,wk); "
            "v=einsum('btd,dhk->bhtk',y,wv); "
            "attention(q,k,v)"
        ),
        {"x": (2, 512, 512), "y": (2, 128, 768), "wq": (512, 8, 64), "wk": (768, 8, 64), "wv": (768, 8, 64)},
        3,
        True,
    ),
    ModelText(
        "logits with softcap",
        "30 * tanh(rms_norm(x, g) @ w.mT / 30)",
        {"x": (512, 512), "g": (512,), "w": (8192, 512)},
        2,
        False,
    ),
    ModelText(
        "loss of logits",
        ("z = float32(x @ w.mT); logsumexp(z, -1) - take_along_axis(z, t[:, None], -1)[:, 0]"),
        {"x": (512, 512), "w": (8192, 512), "t": ((512,), "int64")},
        2,
        False,
    ),
    ModelText(
        "patches of a picture",
        "reshape(transpose(reshape(x, (8,3,14,16,14,16)), (0,2,4,1,3,5)), (8,196,768)) @ w + b + p",
        {"x": (8, 3, 224, 224), "w": (768, 384), "b": (384,), "p": (196, 384)},
        2,
        False,
    ),
    ModelText(
        "patches by einsum",
        "einsum('bchpwq,cpqd->bhwd', reshape(x,(8,3,14,16,14,16)), w) + b",
        {"x": (8, 3, 224, 224), "w": (3, 16, 16, 384), "b": (384,)},
        2,
        False,
    ),
    ModelText(
        "attention with a learned bias",
        "attention(q, k, v, score='score + t[h, i, j]', t=t)",
        {"q": (2, 8, 512, 64), "k": (2, 8, 512, 64), "v": (2, 8, 512, 64), "t": (8, 512, 512)},
        1,
        True,
    ),
    ModelText(
        "relative bias as a text",
        "softmax(q@k.mT/8 + b)@v",
        {"q": (2, 8, 512, 64), "k": (2, 8, 512, 64), "v": (2, 8, 512, 64), "b": (8, 512, 512)},
        1,
        True,
    ),
    ModelText(
        "gates of a selective scan",
        ("z = x@wz; h = x@wx; d = log1p(exp(x@wd + bd)); return silu(z) * h, d, exp(-d * exp(a))"),
        {"x": (1024, 512), "wz": (512, 1024), "wx": (512, 1024), "wd": (512, 1024), "bd": (1024,), "a": (1024,)},
        1,
        False,
    ),
    ModelText(
        "decoding with grouped queries",
        ("q = reshape(x@wq, (8,16,1,64)); attention(q, k, v)"),
        {"x": (8, 1024), "wq": (1024, 1024), "k": (8, 4, 1024, 64), "v": (8, 4, 1024, 64)},
        2,
        True,
    ),
    ModelText(
        "parallel attention and layer",
        (
            "h = layer_norm(x, g, b); "
            "q=einsum('bsd,dhk->bhsk',h,wq); "
            "k=einsum('bsd,dhk->bhsk',h,wk); "
            "v=einsum('bsd,dhk->bhsk',h,wv); "
            "o=attention(q,k,v,mask='j <= i'); "
            "x + einsum('bhsk,hkd->bsd',o,wo) + gelu(h@w1)@w2"
        ),
        {
            "x": (2, 512, 512),
            "g": (512,),
            "b": (512,),
            "wq": (512, 8, 64),
            "wk": (512, 8, 64),
            "wv": (512, 8, 64),
            "wo": (8, 64, 512),
            "w1": (512, 2048),
            "w2": (2048, 512),
        },
        6,
        True,
    ),
    ModelText(
        "a layer with a residual, normalised after",
        "layer_norm(x + relu(x@a + c)@b + d, g, h)",
        {"x": (1024, 512), "a": (512, 2048), "c": (2048,), "b": (2048, 512), "d": (512,), "g": (512,), "h": (512,)},
        3,
        False,
    ),
    ModelText(
        "float8 weights",
        "gelu(x @ (bfloat16(float32(w) * s)) + b)",
        {"x": (1024, 512), "w": ((512, 1024), "float8_e4m3fn"), "s": ((1024,), "float32"), "b": (1024,)},
        2,
        False,
    ),
    ModelText(
        "int8 weights",
        "x @ (bfloat16(w) * s)",
        {"x": (1024, 512), "w": ((512, 1024), "int8"), "s": (1024,)},
        2,
        False,
    ),
    ModelText(
        "a mixer's two layers",
        ("h = x + swapaxes(gelu(swapaxes(x, 1, 2) @ a) @ b, 1, 2); h + gelu(h @ c) @ d"),
        {"x": (8, 256, 512), "a": (256, 512), "b": (512, 256), "c": (512, 1024), "d": (1024, 512)},
        5,
        False,
    ),
    ModelText(
        "sliding window with sinks",
        "attention(q, k, v, mask='(j <= i) & ((i - j < 128) | (j < 4))')",
        {"q": (2, 8, 512, 64), "k": (2, 8, 512, 64), "v": (2, 8, 512, 64)},
        1,
        True,
    ),
)
