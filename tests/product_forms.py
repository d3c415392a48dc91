"""The forms that statements of random programs of products take; see forms.py and draw_products.py for their holes.

{x2} is a matrix, {s2} a square one, {b} multiplies it from the right and {l} from the left, {q} and {ql} are square and
do so too, {u} has an element for each row and {last} one for each column, {ax} is an axis of two.
"""

from __future__ import annotations

Families = dict[str, tuple[int, list[str]]]
SEPARATOR = " | "


def forms(lines: str) -> list[str]:
    return [form for line in lines.strip().splitlines() for form in line.strip().split(SEPARATOR)]


PRODUCTS: Families = {
    "products": (
        16,
        forms("""
            {x2} @ {b} | {l} @ {x2} | {x2} @ {x2}.T | {x2}.T @ {x2} | ({x2} @ {x2}.T) @ {x2} | {x2} @ ({x2}.T @ {x2})
            ({x2} @ {q}) @ {q} | {x2} @ ({q} @ {q}) | {ql} @ {x2} @ {q} | {x2} @ {keys}.T
            ({x2} @ {q}) @ ({x2} @ {q}).T | {x2} @ {q} + {x2} | ({x2} @ {keys}.T) @ {keys} | {l} @ ({x2} @ {b})
            ({x2} @ {x2}.T) @ ({x2} @ {x2}.T) | ({x2} + {x2} @ {q}) @ {b} | relu({x2} @ {b}) @ {b}
            tanh({x2} @ {q} + {same} @ {q}) @ {b} | ({x2} @ {q}) * {x2} | 2 * {x2} - {x2} @ ({x2}.T @ {x2})
        """),
    ),
    "squares": (
        8,
        forms("""
            {s2} @ {s2} | ({s2} @ {s2}) @ {s2} | {s2} @ ({s2} @ {b}) | {s2} + {s2} @ {s2} | {s2} @ {s2}.T - {s2}
            ({s2} + {s2} @ {q}) @ {b} | {s2} @ {q} - {q} @ {s2} | {s2} @ ({s2} @ ({s2} @ {b})) | {s2}.T @ {b}
            3 * {s2} - 0.5 * {s2} @ {s2} | {q} @ {s2} @ {q}.T | ({s2} + {s2}.T) @ {b}
        """),
    ),
    "sums of broadcast products": (
        8,
        forms("""
            sum({x2}[:, None] * {keys}[None], -1) | sum({x2}[:, :, None] * {b}[None], 1)
            sum(square({x2}[:, None] - {keys}), -1) | exp(-sum(square({x2}[:, None] - {keys}), -1)) @ {keys}
            sum(abs({x2}[:, None] - {keys}), -1) | max({x2}[:, :, None] + {b}[None], axis=1)
            sum(softmax({x2} @ {keys}.T)[..., None] * {keys}[None], 1)
            sum(({x2} @ {q})[:, :, None] * {b}, 1) | sum(exp(-square({x2}[:, None] - {keys})) * {keys}[None], 1)
        """),
    ),
    "einsum": (
        7,
        forms("""
            einsum("ij,jk->ik", {x2}, {b}) | einsum("ij,kj->ki", {x2}, {keys}) | einsum("ij,jk,lk->il", {x2}, {q}, {b})
            einsum("ij,jk,ik->i", {x2}, {q}, {x2}) | einsum("ij,jk->k", {x2}, {b}) | einsum("ij,ik->jk", {x2}, {same})
            einsum("ij,kj,kl->il", {x2}, {keys}, {keys}) | einsum("ij,jj->i", {x2}, {q}) | einsum("ij,i->j", {x2}, {u})
            einsum("ij,ji->", {s2}, {s2}) | einsum("ij,jk,kl->il", {x2}, {q}, {q})
        """),
    ),
    "weights": (
        12,
        forms("""
            softmax({x2} @ {keys}.T, axis={ax}) | softmax({x2} @ {keys}.T) @ {keys} | softmax({x2} @ {x2}.T).T @ {x2}
            softmax({x2} @ {x2}.T, axis=0) @ {x2} | sum(softmax({x2} @ {keys}.T), 0) | sigmoid({x2} @ {keys}.T) @ {keys}
            softmax(where({causal}, {x2} @ {keys}.mT, -inf)) | logsumexp({x2} @ {keys}.T, {ax})
            softmax(({x2} @ {q}) @ {keys}.T) @ {keys} | softmax({x2} @ {x2}.T - {x2} @ {x2}.T * {c01}, axis={ax})
            {x2}.T @ softmax({x2} @ {x2}.T, axis={ax}) | softmax({x2}) @ softmax({b}, axis={ax}) | softmax({s2}) @ {s2}
            exp({x2} @ {x2}.T) / sum(exp({x2} @ {x2}.T), {ax}, keepdims=True) | softmax({x2} @ {q}, axis={ax})
        """),
    ),
    "masked products": (
        9,
        forms("""
            where({causal}, {x2} @ {keys}.mT, 0) @ {keys} | tril({x2} @ {keys}.T) @ {keys} | triu({x2} @ {x2}.T) @ {x2}
            ({x2} @ {keys}.mT * ({causal})) @ {keys} | tril({x2}) @ {b} | relu({x2} @ {keys}.T) @ {keys}
            where({x2} > 0, {x2}, 0) @ {b} | where({causal}, square({x2} @ {keys}.mT), 0) @ {keys}
            sum(where({causal}, {x2} @ {keys}.mT, 0)[..., None] * {keys}[None], 1) | tril({s2}, -1) @ ({s2} @ {b})
            where({causal}, {x2} @ {keys}.mT, 0)
        """),
    ),
    "norms": (
        9,
        forms("""
            {x2} / sqrt(sum({x2} * {x2}, {ax}, keepdims=True) + 1) | {x2} - mean({x2}, {ax}, keepdims=True)
            {x2} / (sum(abs({x2}), {ax}, keepdims=True) + 1) | softmax({x2}, axis={ax}) | layer_norm({x2})
            {x2} / (1 + max(abs({x2}))) | {x2} * rsqrt(mean({x2} * {x2}, -1, keepdims=True) + 1)
            {x2} - logsumexp({x2}, {ax}, keepdims=True) | {x2} / sqrt(sum({x2} * {x2}) + 1)
            {x2} - max({x2}, axis={ax}, keepdims=True)
            {s2} / sqrt(1 + sum(abs({s2}), 1))[:, None] / sqrt(1 + sum(abs({s2}), 1))
        """),
    ),
    "folds": (
        8,
        forms("""
            sum({x2}, {ax}) | max({x2}, axis={ax}) | mean({x2} * {same}, {ax}) | sum({x2} * {same}) | trace({s2})
            diagonal({s2}) | argmax({x2}, axis={ax}) | logsumexp({x2}, {ax}) | sum({x2} @ {b}, {ax}) | {x2} @ {last}
            {u} @ {x2} | sum(({x2} @ {q}) * {x2}, {ax}) | cumsum({x2}, {ax})
            sum({x2} @ {keys}.T * ({x2} @ {keys}.T), {ax}) | var({x2}, {ax})
            max({x2} @ {x2}.T - mean({x2} @ {x2}.T, 0), axis={ax}) | {u} @ {x2} @ {last}
        """),
    ),
    "elements": (
        14,
        forms("""
            {x2} + {same} | {x2} * {same} | {x2} - 0.5 * {same} | tanh({x2}) | relu({x2}) | exp(-abs({x2}))
            sigmoid({x2}) | {x2} * {last} | {x2} * {u}[:, None] | {x2} + {u}[:, None] + {last} | square({x2})
            0.5 * {x2} | exp(0.3 * minimum({x2}, 3)) | {x2} / (1 + abs({same})) | minimum({x2}, {same}) | {x2} + {last}
        """),
    ),
    "views": (
        6,
        forms("""
            {x2}.T | {x2}.T | {x2}[::-1] | {x2}[:, ::-1] | concat([{x2}, {same}], axis={ax}) | roll({x2}, 1, axis={ax})
            {x2}[:, :1] * {x2} | reshape({x2}, (size({x2}, 1), size({x2}, 0))) | {x2}[1:] @ {b}
        """),
    ),
}

# of a matrix another one of its shape: the same step several times, each of what the last one gave
STEPS = forms("""
    tanh({x2} @ {q})
    {ql} @ {x2}
    0.5 * ({ql} @ {x2}) + 0.5 * {same}
    {x2} + softmax({x2} @ {x2}.T) @ {x2}
    1.5 * {x2} - 0.5 * {x2} @ ({x2}.T @ {x2})
    ({ql} @ {x2}) / sqrt(sum(square({ql} @ {x2}), 0) + 1)
    softmax({x2}, axis={ax})
    relu({x2} @ {q} + {same})
    {x2} @ {q} + {same} @ {q}
    0.5 * ({s2} @ {s2})
    {x2} - logsumexp({x2}, {ax}, keepdims=True)
    {x2} / (1 + sum(abs({x2}), {ax}, keepdims=True))
    {x2} + 0.1 * ({ql} @ relu({x2} @ {q}))
    sigmoid({ql} @ {x2} @ {q})
    {x2} * sigmoid({x2} @ {q}) + {same} * (1 - sigmoid({x2} @ {q}))
""")
