"""Statements and expressions typed one after another, and what writes them once their types are settled."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..numba_backend import types
from .expressions import Expressions
from .typed import Kinds, Step
from .values import Frame, Slots, UnsupportedForm, llvm_type


class Scope:
    """Statements typed one after another; `kinds` are those of the names that have a value so far, `results` what the
    function returns. Behind a return there is nothing."""

    def __init__(self, names: Mapping[str, Any], kinds: Kinds, results: Sequence[types.Type] = ()):
        self.names, self.kinds, self.results = names, kinds, results
        self.returned = False

    @property
    def _expressions(self) -> Expressions:
        return Expressions(self.names, self.kinds)

    def _inner(self, kinds: Kinds) -> Scope:
        return Scope(self.names, dict(kinds), self.results)

    # -- statements

    def block(self, body: Sequence[ast.stmt]) -> Step:
        steps = []
        for node in body:
            if self.returned:
                raise UnsupportedForm("statements behind a return")
            if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                steps.append(_located(node, self._statement(node)))
        return _in_turn(steps)

    def _statement(self, node: ast.stmt) -> Step:
        match node:
            case ast.Assign(targets=[target], value=value):
                return self._assigned(target, value)
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                return self._assigned(target, ast.BinOp(ast.Name(name, ast.Load()), op, value))
            case ast.Expr(value=value):
                return self._expressions.expression(value).emit
            case ast.Return(value=value):
                return self._returned(value)
            case ast.If(test=test, body=body, orelse=orelse):
                return self._branched(test, body, orelse)
            case ast.While(test=test, body=body, orelse=[]):
                return self._looped(test, body)
            case ast.For(
                target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=[end]), body=body, orelse=[]
            ):
                return self._counted(name, end, body)
        raise UnsupportedForm(type(node).__name__)

    def _assigned(self, target: ast.expr, value: ast.expr) -> Step:
        if isinstance(target, ast.Name):
            typed, name = self._expressions.expression(value), target.id
            self._set(name, typed.kind)
            return lambda frame: frame.assign(name, typed.kind, typed.emit(frame))
        if not isinstance(target, ast.Tuple) or not all(isinstance(x, ast.Name) for x in target.elts):
            raise UnsupportedForm("target")
        names = [x.id for x in target.elts if isinstance(x, ast.Name)]
        parts = value.elts if isinstance(value, ast.Tuple) else [ast.Starred(value)]
        kinds, emit_values = self._expressions.several(parts)
        if len(kinds) != len(names):
            raise UnsupportedForm("target")
        for name, kind in zip(names, kinds):
            self._set(name, kind)

        def step(frame: Frame) -> None:
            for name, kind, emitted in zip(names, kinds, emit_values(frame)):
                frame.assign(name, kind, emitted)

        return step

    def _set(self, name: str, kind: types.Type) -> None:
        llvm_type(kind)
        self.kinds[name] = kind

    def _returned(self, value: ast.expr | None) -> Step:
        self.returned, results = True, self.results
        if (value is None) != (not results):
            raise UnsupportedForm("return")
        if value is None:
            return lambda frame: frame.builder.ret_void()
        kinds, emit_values = self._expressions.several(value.elts if isinstance(value, ast.Tuple) else [value])
        if len(kinds) == 1 and isinstance(kinds[0], types.BaseTuple):
            kinds, emit_values = self._expressions.several([ast.Starred(value)])
        whole = results[0] if len(results) == 1 else types.Tuple.from_types(tuple(results))

        def step(frame: Frame) -> None:
            values = [frame.unit.cast(v, k, r) for v, k, r in zip(emit_values(frame), kinds, results)]
            frame.ret(frame.unit.pack(whole, values))

        return step

    # -- where paths part and meet

    def _branched(self, test: ast.expr, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> Step:
        condition = self._expressions.condition(test)
        paths = [self._inner(self.kinds), self._inner(self.kinds)]
        steps = [path.block(nodes) for path, nodes in zip(paths, (body, orelse))]
        met, self.kinds = _together([path.kinds for path in paths if not path.returned])
        turns = [path._turn(met) for path in paths]
        changed = _stored([*body, *orelse])
        left = [{n: kind for n, kind in self.kinds.items() if n in changed and n in path.kinds} for path in paths]
        self.returned = returned = all(path.returned for path in paths)

        def step(frame: Frame) -> None:
            before, outside = dict(frame.known), frame.slots
            joint: Slots = {}

            def path(k: int) -> None:
                frame.known = dict(before)
                frame.load_from(outside)
                steps[k](frame)
                if not paths[k].returned:
                    turns[k](frame)
                    frame.store_for_join(left[k], joint)

            if orelse or any(name in changed for name in met):
                with frame.builder.if_else(condition.emit(frame)) as (then, otherwise):
                    with then:
                        path(0)
                    with otherwise:
                        path(1)
            else:
                with frame.builder.if_then(condition.emit(frame)):
                    path(0)
            frame.known = before
            frame.load_from(outside | joint)
            frame.forget(changed)
            if returned:
                frame.builder.unreachable()

        return step

    def _turn(self, met: Kinds) -> Step:
        """What gives variables the types that they have where paths meet."""
        converted = [(name, self.kinds[name], kind) for name, kind in met.items() if self.kinds.get(name, kind) != kind]

        def step(frame: Frame) -> None:
            for name, own, kind in converted:
                frame.assign(name, kind, frame.unit.cast(frame.get(name, own), own, kind))

        return step

    def _looped(self, test: ast.expr, body: Sequence[ast.stmt]) -> Step:
        """A loop, whose variables have types that its own assignments keep."""
        before, head = self.kinds, dict(self.kinds)
        while True:
            inner = self._inner(head)
            condition, step = inner._expressions.condition(test), inner.block(body)
            met = _met(head, {name: inner.kinds[name] for name in head if name in inner.kinds})
            if met == head:
                break
            head = met
        if inner.returned:
            raise UnsupportedForm("a loop that returns")
        enter, again = self._inner(before)._turn(head), inner._turn(head)
        changed = _stored(body)
        carried = {name: kind for name, kind in head.items() if name in changed}
        left = {name: kind for name, kind in (inner.kinds | head).items() if name in changed}
        self.kinds = before | inner.kinds | head

        def write(frame: Frame) -> None:
            enter(frame)
            outside, beyond, around = frame.slots, Slots(), Slots()  # a place for a turn's values, one for the end's
            inside, after = (frame.builder.append_basic_block(name) for name in ("inside", "after"))

            def turn(variables: Kinds) -> None:  # the condition behind the body, as Python itself turns loops
                goes_on = condition.emit(frame)
                frame.store_for_join(variables, beyond, around)
                frame.builder.cbranch(goes_on, inside, after)

            turn(carried)
            frame.forget(changed)
            known = dict(frame.known)
            frame.load_from(outside | around)
            frame.builder.position_at_end(inside)
            step(frame)
            again(frame)
            turn(left)
            frame.builder.position_at_end(after)
            frame.known = known
            frame.load_from(outside | beyond)

        return write

    def _counted(self, name: str, end: ast.expr, body: Sequence[ast.stmt]) -> Step:
        """`for name in range(end)`: the count is a variable of its own."""
        count, limit = f"{name}'", f"{name}''"
        increment = ast.BinOp(ast.Name(count, ast.Load()), ast.Add(), ast.Constant(1))
        start = [self._assigned(_name(limit), end), self._assigned(_name(count), ast.Constant(0))]
        inner = [ast.Assign([_name(name)], ast.Name(count, ast.Load())), ast.Assign([_name(count)], increment), *body]
        loop = self._looped(ast.Compare(ast.Name(count, ast.Load()), [ast.Lt()], [ast.Name(limit, ast.Load())]), inner)
        return _in_turn([*start, loop])


def _located(node: ast.stmt, step: Step) -> Step:
    """A statement's step, whose instructions belong to its line."""
    line = getattr(node, "lineno", 0)  # 0: a statement that no line of the file has

    def write(frame: Frame) -> None:
        frame.unit.at(line)
        step(frame)

    return write


def _in_turn(steps: Sequence[Step]) -> Step:
    def write(frame: Frame) -> None:
        for step in steps:
            step(frame)

    return write


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def _stored(body: Iterable[ast.stmt]) -> set[str]:
    """The names that statements give values to, and what counts their loops."""
    names: set[str] = set()
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)]) | ast.Assign(targets=targets):
                names |= {x.id for x in targets if isinstance(x, ast.Name)}
            case ast.AugAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.For(target=ast.Name(id=name), body=inner):
                names |= {name, f"{name}'", f"{name}''"} | _stored(inner)
            case ast.If(body=inner, orelse=other) | ast.While(body=inner, orelse=other):
                names |= _stored(inner) | _stored(other)
    return names


def _together(going: Sequence[Kinds]) -> tuple[Kinds, Kinds]:
    """(the types of names that have a value on all paths that go on, the types of all names there)"""
    if len(going) != 2:
        return {}, dict(going[0]) if going else {}
    met, (first, second) = _met(*going), going
    return met, {n: kind for n, kind in (first | second | met).items() if n in met or n not in first or n not in second}


def _met(first: Kinds, second: Kinds) -> Kinds:
    """The types of names that have a value on both paths, where one type holds both."""
    met = {}
    for name in (name for name in first if name in second):
        x, y = first[name], second[name]
        if x == y:
            met[name] = x
        elif isinstance(x, types.Integer) and isinstance(y, types.Integer) and x.signed == y.signed:
            met[name] = max(x, y, key=lambda kind: kind.bitwidth)
    return met
