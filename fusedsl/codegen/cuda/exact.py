"""Sums of a pass over scores once more, element by element, where some came out as no finite number.

A product of matrices multiplies what is masked too, by 0: NaN and infinities of masked elements would be in its sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .fragments import OWN_STEPS, ROW
from .text import indented

if TYPE_CHECKING:
    from .scores import ScoreWriter

NARROW = 128  # up to so many elements of a row, pairs are slower: on an H200 a causal mask took 1 to 5 % longer

TOTALS = [
    "",
    "",
    "def nothing_total():",
    "    return {0}(0.0)",
    "",
    "",
    "def merging_total(a, b):",
    "    return a + b",
    "",
    "",
    'join_total = join_rows(fold("{0}", merging_total, nothing_total))',
    "strange, row_zeros = O.strange(), both_rows('{0}')",
]


def exact_sums(w: ScoreWriter) -> list[str]:
    """Lines that sum what counts of a warp's rows again, where that changes anything; the state is the final one."""
    if w.weighing.kept is None:
        return []
    w.functions += [line.format(w.weighing.state.dtype.name) for line in TOTALS]
    own = w.weighing.state.name
    return [f"if strange({own}):", *indented([*w.place_again(), *w.written(lambda: _again(w))])]


def _again(w: ScoreWriter) -> None:
    stream, own = w.stream, w.weighing.state.name
    w.domain = {name: kind for name, kind in w.domain.items() if w.leaf_domain(name) != ROW}  # read anew
    folded = [v.name for v in (stream.join.results if stream.join else ())]
    pairs = list(zip(stream.state.lifted, stream.state.state))[: len(folded)]
    w.code += [f"{own} = no_sums()", *(f"{a.name} = {b.name}" for a, b in pairs)]
    w.domain |= {a.name: ROW for a, _ in pairs}
    for phase in stream.tile:
        if phase.row:
            w.leaves(v.name for v in phase.row.args)
            w.call("row_again", phase.row, ROW)
    w.code.append("step = int64(0)")
    w.code += [f"while step < n{w.along}:", *indented(w.written(lambda: _element(w))), "    step += 1"]


def _element(w: ScoreWriter) -> None:
    """What one element of the stream adds."""
    stream, weighing = w.stream, w.weighing
    w.places = {w.along: "step", w.score.axis: "part"}
    product = w.written(lambda: _product(w))
    w.places = {w.along: "step"}
    w.code += ["total, part = row_zeros(0.0), int64(thread_again() & 3)"]
    w.code += [f"while part < n{w.score.axis}:", *indented(product), f"{w.score.value.name} = join_total(total)"]
    w.domain[w.score.value.name] = ROW
    for number, body in enumerate((*stream.inputs, *(phase.element for phase in stream.tile), weighing.kept)):
        assert body is not None
        w.leaves(v.name for v in body.args)
        w.call(f"again_{number}", body, ROW)
    _add(w)
    w.places = {}


def _add(w: ScoreWriter) -> None:
    """The weighed element, read where it is added: no register holds it longer."""
    weighing, own, k = w.weighing, w.weighing.state.name, w.operands.weighed
    operand, kept, axes = w.kernel.operands[k], weighing.kept, (w.along, w.own_axis)
    assert kept is not None
    d, size, width = operand.dtype, operand.dtype.itemsize, w.tiles.out_width
    held = f"{own}, {weighing.weight.name}, {kept.results[0].name}"
    stride, further = (w.names.stride(k, a) if operand.strides[a] == "s" else operand.strides[a] for a in axes)
    pairs = d.name in ("float16", "bfloat16") and operand.access == "vector" and further == "1" and width % 8 == 0
    if pairs and width > NARROW:
        w.top.append(f'add_kept = add_line({width}, "{d.name}")')
        w.code.append(f"{own} = add_kept({held}, {w.base(k)} + step * {stride} * {size})")
        return
    lines = [f"return select(kept, fma(w, fetch_{d}(at + c * step * {size}, kept & (c < limit)), sums), sums)"]
    sums, own_weight = weighing.state.dtype, weighing.weight.dtype
    signed = f"{sums}, {own_weight}, bool, int64, int64, int64, int64 -> {sums}"
    w.define("add_kept", OWN_STEPS, signed, "sums, w, kept, at, c, step, limit", lines)
    at = f"{w.base(k)} + (step * {stride} + first_column() * {further}) * {size}"
    call = f"add_kept({held}, {at}, own_steps(), int64({further}), {width} - first_column())"
    w.code.append(f"{own} = {call}")


def _product(w: ScoreWriter) -> None:
    left, right = w.score.left, w.score.right
    w.leaves(v.name for v in (*left.args, *right.args))
    d = w.score.value.dtype
    w.define("add_product", ROW, f"{d}, {d}, {d} -> {d}", "x, y, sums", ["return fma(x, y, sums)"])
    w.code.append(f"total = add_product({left.results[0].name}, {right.results[0].name}, total)")
    w.code.append("part += 4")
