"""Runs texts and traced functions on the reference interpreter, from plain arguments."""

from __future__ import annotations

import numpy as np

from fusedsl.config import DEFAULT
from fusedsl.ir.dims import Symbol
from fusedsl.ir.graph import Parameter, Type
from fusedsl.ir.interp import extents_of, interpret
from fusedsl.ir.types import BOOL, DTYPES, FLOAT64, INT64
from fusedsl.ir.verify import verify
from fusedsl.lang.build_graph import build, parameter_names
from fusedsl.lang.parse import parse
from fusedsl.trace import TraceInputs, trace


def parameter(name, k, value):
    """What a signature says of argument `k`."""
    if isinstance(value, (bool, int, float)) and not isinstance(value, np.generic):
        dtype, weak = (BOOL, False) if isinstance(value, bool) else (INT64 if isinstance(value, int) else FLOAT64, True)
        return Parameter(name, Type(dtype, (), weak), scalar=True)
    shape = tuple(1 if n == 1 else Symbol(k, a) for a, n in enumerate(np.shape(value)))
    return Parameter(name, Type(DTYPES[np.asarray(value).dtype.name], shape))


def graph_of(text, values, options=DEFAULT):
    """The graph of a text and its arguments, in the order of its parameters; missing names are left out."""
    program = parse(text)
    names = [name for name in parameter_names(program) if name in values]
    arguments = [values[name] for name in names]
    parameters = tuple(parameter(name, k, v) for k, (name, v) in enumerate(zip(names, arguments)))
    graph, _ = build(program, parameters, extents_of(arguments), options)
    verify(graph)
    return graph, arguments


def evaluate(text, options=DEFAULT, **values):
    """The result of a text, or the tuple of its results."""
    results = interpret(*graph_of(text, values, options))
    return results[0] if len(results) == 1 else tuple(results)


def traced(function, *values, options=DEFAULT, **keywords):
    """The trace of a call: arrays and numbers become parameters, all else is passed as it is."""
    arguments, immutable, numbers = [], set(), {}

    def declared(value):
        if isinstance(value, (bool, str, tuple, type, type(None))) or not isinstance(
            value, (np.ndarray, np.generic, int, float)
        ):
            return value
        k = len(arguments)
        arguments.append(value)
        made = parameter(f"p{k}", k, value)
        if made.scalar:
            numbers[k] = value
        elif isinstance(value, np.generic):
            immutable.add(k)
        return made

    positional = [declared(v) for v in values]
    named = {key: declared(v) for key, v in keywords.items()}
    extents = extents_of(arguments)
    made = trace(function, TraceInputs(positional, named, extents, numbers, frozenset(immutable)), options)
    verify(made.graph)
    return made, arguments


def call(function, *values, options=DEFAULT, **keywords):
    """What a traced function returns, and the arguments after it."""
    made, arguments = traced(function, *values, options=options, **keywords)
    results = interpret(made.graph, [*arguments, *made.captures])
    after = list(arguments)
    for k, result in made.writes:
        after[k] = results[result]
    return made.rebuild(results, after), after
