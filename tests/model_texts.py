"""Texts as models write them, of bfloat16 arrays: the kernels of each on sm_90, and whether one is attention."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelText:
    """A text, its arrays by name (a shape, or a shape and a dtype), its kernels, and whether one is attention."""

    name: str
    text: str
    arrays: dict
    kernels: int
    attends: bool


MODEL_TEXTS = (
    ModelText(
        "attention of projections",
        "q=x@wq; k=x@wk; v=x@wv; softmax(q@k.mT/8)@v",
        {"x": (1024, 1024), "wq": (1024, 64), "wk": (1024, 64), "wv": (1024, 64)},
        2,
        True,
    ),
    ModelText(
        "attention() of projections",
        "attention((x@wq)[None,None], (x@wk)[None,None], (x@wv)[None,None])",
        {"x": (1024, 1024), "wq": (1024, 64), "wk": (1024, 64), "wv": (1024, 64)},
        2,
        True,
    ),
    ModelText(
        "heads by einsum",
        (
            'q=einsum("bsd,dhk->bhsk",x,wq); k=einsum("bsd,dhk->bhsk",x,wk); v=einsum("bsd,'
            "dhk->bhsk\",x,wv); attention(q,k,v,mask='j <= i')"
        ),
        {"x": (2, 512, 1024), "wq": (1024, 8, 64), "wk": (1024, 8, 64), "wv": (1024, 8, 64)},
        2,
        True,
    ),
    ModelText(
        "heads by reshape",
        (
            "q=swapaxes(reshape(x@wq,(2,512,8,64)),1,2); k=swapaxes(reshape(x@wk,(2,512,8,64)),1,"
            "2); v=swapaxes(reshape(x@wv,(2,512,8,64)),1,2); attention(q,k,v,mask='j <= i')"
        ),
        {"x": (2, 512, 1024), "wq": (1024, 512), "wk": (1024, 512), "wv": (1024, 512)},
        2,
        True,
    ),
    ModelText(
        "rotary embeddings, cast",
        (
            "f(x, c, s) = concat([x[...,:32]*c - x[...,32:]*s, x[...,32:]*c + x[...,:32]*s], "
            "-1)\nattention(bfloat16(f(q,c,s)), bfloat16(f(k,c,s)), v, mask='j <= i')"
        ),
        {
            "q": (2, 8, 512, 64),
            "k": (2, 8, 512, 64),
            "v": (2, 8, 512, 64),
            "c": ((512, 32), "float32"),
            "s": ((512, 32), "float32"),
        },
        2,
        True,
    ),
    ModelText(
        "rotary embeddings",
        (
            "f(x, c, s) = concat([x[...,:32]*c - x[...,32:]*s, x[...,32:]*c + x[...,:32]*s], "
            "-1)\nattention(f(q,c,s), f(k,c,s), v, mask='j <= i')"
        ),
        {"q": (2, 8, 512, 64), "k": (2, 8, 512, 64), "v": (2, 8, 512, 64), "c": (512, 32), "s": (512, 32)},
        2,
        True,
    ),
    ModelText(
        "normalised queries and keys, cast",
        "attention(bfloat16(rms_norm(q,g)), bfloat16(rms_norm(k,h)), v, mask='j <= i')",
        {"q": (2, 8, 512, 64), "k": (2, 8, 512, 64), "v": (2, 8, 512, 64), "g": (64,), "h": (64,)},
        3,
        True,
    ),
    ModelText(
        "normalised queries and keys",
        "attention(rms_norm(q,g), rms_norm(k,h), v, mask='j <= i')",
        {"q": (2, 8, 512, 64), "k": (2, 8, 512, 64), "v": (2, 8, 512, 64), "g": (64,), "h": (64,)},
        3,
        True,
    ),
    ModelText(
        "projections, rotated",
        (
            "f(x, c, s) = concat([x[...,:32]*c - x[...,32:]*s, x[...,32:]*c + x[...,:32]*s], "
            '-1)\nq=einsum("bsd,dhk->bhsk",x,wq); k=einsum("bsd,dhk->bhsk",x,wk); v=einsum("bsd,'
            "dhk->bhsk\",x,wv); attention(f(q,c,s),f(k,c,s),v,mask='j <= i')"
        ),
        {
            "x": (2, 512, 1024),
            "wq": (1024, 8, 64),
            "wk": (1024, 8, 64),
            "wv": (1024, 8, 64),
            "c": (512, 32),
            "s": (512, 32),
        },
        3,
        True,
    ),
    ModelText(
        "projections, normalised, rotated, and projected out",
        (
            "f(x, c, s) = concat([x[...,:32]*c - x[...,32:]*s, x[...,32:]*c + x[...,:32]*s], "
            '-1)\nq=einsum("bsd,dhk->bhsk",x,wq); k=einsum("bsd,dhk->bhsk",x,wk); v=einsum("bsd,'
            'dhk->bhsk",x,wv); o=attention(f(rms_norm(q,g),c,s),f(rms_norm(k,h),c,s),v,'
            "mask='j <= i'); einsum(\"bhsk,hkd->bsd\",o,wo)"
        ),
        {
            "x": (2, 512, 1024),
            "wq": (1024, 8, 64),
            "wk": (1024, 8, 64),
            "wv": (1024, 8, 64),
            "wo": (8, 64, 1024),
            "c": (512, 32),
            "s": (512, 32),
            "g": (64,),
            "h": (64,),
        },
        5,
        True,
    ),
    ModelText(
        "float8 keys and values",
        "attention(q, bfloat16(k), bfloat16(v), mask='j <= i')",
        {"q": (2, 8, 512, 64), "k": ((2, 8, 512, 64), "float8_e4m3fn"), "v": ((2, 8, 512, 64), "float8_e4m3fn")},
        3,
        True,
    ),
    ModelText(
        "scaled float8 keys and values",
        "attention(q, bfloat16(float32(k)*a), bfloat16(float32(v)*b), mask='j <= i')",
        {
            "q": (2, 8, 512, 64),
            "k": ((2, 8, 512, 64), "float8_e4m3fn"),
            "v": ((2, 8, 512, 64), "float8_e4m3fn"),
            "a": ((2, 8, 1, 1), "float32"),
            "b": ((2, 8, 1, 1), "float32"),
        },
        3,
        True,
    ),
    ModelText(
        "float32 queries, keys and values, cast",
        "attention(bfloat16(q), bfloat16(k), bfloat16(v), mask='j <= i')",
        {"q": ((2, 8, 512, 64), "float32"), "k": ((2, 8, 512, 64), "float32"), "v": ((2, 8, 512, 64), "float32")},
        4,
        True,
    ),
    ModelText(
        "an output projection",
        "reshape(swapaxes(attention(q,k,v,mask='j <= i'),1,2),(2,512,512)) @ w",
        {"q": (2, 8, 512, 64), "k": (2, 8, 512, 64), "v": (2, 8, 512, 64), "w": (512, 512)},
        2,
        True,
    ),
    ModelText(
        "a text of attention, projected out",
        "a=softmax(q@k.mT/8)@v; x + reshape(swapaxes(a,1,2),(2,512,512)) @ w",
        {"q": (2, 8, 512, 64), "k": (2, 8, 512, 64), "v": (2, 8, 512, 64), "w": (512, 512), "x": (2, 512, 512)},
        2,
        True,
    ),
    ModelText(
        "joined projections",
        "p=x@w; q=p[:,:64]; k=p[:,64:128]; v=p[:,128:]; softmax(q@k.mT/8)@v",
        {"x": (1024, 1024), "w": (1024, 192)},
        2,
        True,
    ),
    ModelText(
        "joined heads",
        (
            "p=reshape(x@w,(2,512,3,8,64)); q=swapaxes(p[:,:,0],1,2); k=swapaxes(p[:,:,1],1,2); "
            "v=swapaxes(p[:,:,2],1,2); attention(q,k,v,mask='j <= i')"
        ),
        {"x": (2, 512, 1024), "w": (1024, 1536)},
        2,
        True,
    ),
    ModelText(
        "grouped queries",
        (
            "q=swapaxes(reshape(x@wq,(2,512,8,64)),1,2); k=swapaxes(reshape(x@wk,(2,512,2,64)),1,"
            "2); v=swapaxes(reshape(x@wv,(2,512,2,64)),1,2); attention(q,k,v,mask='j <= i')"
        ),
        {"x": (2, 512, 1024), "wq": (1024, 512), "wk": (1024, 128), "wv": (1024, 128)},
        3,
        True,
    ),
    ModelText(
        "a Llama block's layer",
        ("h = x + rms_norm(x, g) @ w; (silu(rms_norm(h, g) @ a) * (rms_norm(h, g) @ b)) @ c + h"),
        {"x": (1024, 512), "g": (512,), "w": (512, 512), "a": (512, 1024), "b": (512, 1024), "c": (1024, 512)},
        6,
        False,
    ),
    ModelText(
        "LoRA", "x @ w + (x @ a) @ b * 2", {"x": (1024, 512), "w": (512, 512), "a": (512, 16), "b": (16, 512)}, 3, False
    ),
    ModelText("a router", "topk(softmax(x @ w), 2)", {"x": (1024, 512), "w": (512, 8)}, 2, False),
    ModelText(
        "Muon's step", "A = X @ X.T; B = -4.775 * A + 2.0315 * A @ A; 3.4445 * X + B @ X", {"X": (512, 1024)}, 4, False
    ),
    ModelText(
        "power iteration", "u = A @ v; w = u / sqrt(sum(u * u)); A @ w", {"A": (512, 512), "v": (512, 64)}, 4, False
    ),
    ModelText(
        "a gate of two layers",
        "sigmoid(x @ a + h @ b) * tanh(x @ c + h @ d)",
        {"x": (1024, 512), "h": (1024, 512), "a": (512, 512), "b": (512, 512), "c": (512, 512), "d": (512, 512)},
        2,
        False,
    ),
    ModelText(
        "layer norm and GELU",
        "gelu(layer_norm(x, g, b) @ w + c) @ v",
        {"x": (1024, 512), "g": (512,), "b": (512,), "w": (512, 1024), "c": (1024,), "v": (1024, 512)},
        3,
        False,
    ),
)
