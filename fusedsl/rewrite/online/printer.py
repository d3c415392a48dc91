"""Online reductions as text, and the invariants that they keep."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ...ir.graph import Node, constant, walk
from ..scalar_builder import format_scalar, free_axes, scaled
from .components import Component, extrema
from .online_reduction import OnlineReduction

NAMELESS: Mapping[tuple[str, int], str] = MappingProxyType({})


def show(reduction: OnlineReduction, arrays: Mapping[tuple[str, int], str] = NAMELESS) -> str:
    """Text of an online reduction: its folds, references and results.

    `arrays` are names of arrays, by kind and number.
    """
    names: dict[Node, str] = {}
    loads = [n for n in walk([*reduction.folds, *(f for f, _ in reduction.finish)]) if n.op == "load"]
    for n in loads:
        if (name := arrays.get((n.attr[0].kind, n.attr[0].index))) is not None:
            names[n] = name

    def text(n: Node) -> str:
        return format_scalar(n, names)

    for k, s in enumerate(reduction.state()):
        names[s] = f"%{k}"
    along = ", ".join(map(str, reduction.axes))
    lines = [
        f"online reduction over {along}"
        + (f" for each {', '.join(sorted(map(str, reduction.rows)))}" if reduction.rows else "")
    ]
    reference_name = {r: names[reduction.of_mean(r, reduction.state())] for r in reduction.means}
    for f in reduction.folds:
        fold_state = reduction.of_fold(f, reduction.state())
        lines.append(f"  {', '.join(names[s] for s in fold_state)} = {f.attr[0]} of {text(f.args[0])}")
        for r in reduction.references:
            if r.kind != "mean" and f in (folds := extrema(r, reduction.axes)):
                names_of_folds = [names[reduction.of_fold(other, reduction.state())[0]] for other in folds]
                reference_name[r] = (
                    names_of_folds[0] if len(names_of_folds) == 1 else f"({' or '.join(names_of_folds)})"
                )
    lines += [f"  {reference_name[r]} = mean of {text(r.value)}{_if(r.guard, text)}" for r in reduction.means]
    for c in reduction.components:
        factors = [] if c.weight is None else [_bracketed(text(c.weight))]
        if c.exponent:
            r, one = c.exponent.reference, constant(1.0, c.dtype)
            scale = text(scaled(one, c.exponent.scale, c.exponent.factor))
            inner = f"{_bracketed(text(r.value))} - {reference_name[r]}"
            inner = inner if scale == "1" else f"{_bracketed(scale)} * ({inner})"
            factors.append(f"{c.exponent.base}({inner})")
        factors += [f"({_bracketed(text(r.value))} - {reference_name[r]})" for r in c.powers]
        own_axes = _own_axes(reduction, c)
        output_axes = f" for each {', '.join(own_axes)}" if own_axes else ""
        slot = names[reduction.of_component(c, reduction.state())]
        nonzero = " where the exponential is not 0" if c.vanishes else ""
        lines.append(f"  {slot} = sum of {' * '.join(factors) or '1'}{_if(c.guard, text)}{nonzero}{output_axes}")
    for f, value in reduction.finish:
        lines.append(f"  {f.attr[0]} of {text(f.args[0])} = {text(value)}")
        names[f] = f.attr[0]
    return "\n".join(lines)


def _own_axes(reduction: OnlineReduction, c: Component) -> list[str]:
    if c.weight is None:
        return []
    return sorted(str(a) for a in free_axes([c.weight])[c.weight] - reduction.rows - set(reduction.axes))


def _if(guard: Node | None, text) -> str:
    return "" if guard is None else f" where {text(guard)}"


def _bracketed(text: str) -> str:
    return f"({text})" if " " in text else text


def check(reduction: OnlineReduction) -> None:
    """AssertionError if an online reduction breaks an invariant."""
    results = {f for f, _ in reduction.finish}
    known = set(reduction.state()) | set(reduction.identity)
    for r in reduction.references:
        assert r.kind in ("max", "min", "mean"), f"no kind of reference: {r.kind}"
        if r.kind == "mean":
            assert Component(r.value.type.dtype.compute, guard=r.guard) in reduction.components, (
                "a mean needs its count"
            )
        else:
            folds = extrema(r, reduction.axes)
            assert set(folds) <= set(reduction.folds), f"a {r.kind} is measured from, but not folded"
    for c in reduction.components:
        for _, below in c.below():
            assert below in reduction.components, f"moving a reference of {c} needs {below}"
        read = [x for x in (c.weight, c.guard, *(r.value for r in c.references())) if x is not None]
        assert not results & set(walk(read)), "a component depends on a result of its own pass"
    for f, value in reduction.finish:
        for n in walk([value]):
            assert n.op != "state" or n in known, f"{n!r} is no value of the state"
        assert f.op == "fold" and set(f.attr[1]) == set(reduction.axes), f"{f!r} is no fold over the reduction"
