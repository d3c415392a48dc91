"""The source of a gradient: of a program or a trace, whose graph it differentiates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ..ir.builder import GraphBuilder
from ..ir.dims import Dim, Symbol
from ..ir.graph import Graph, Parameter
from . import Program
from .text_source import unused_name

if TYPE_CHECKING:
    from ..config import Options
    from .call_steps import ProgramSource

Built = tuple[Graph, Mapping[Dim, bool]]


class GradientSource:
    """The gradients of a source's program with respect to some parameters; cotangents are further parameters."""

    def __init__(self, source: ProgramSource, names: Sequence[str], wrt: tuple[int, ...], results: tuple[int, ...]):
        self.source = source
        self.names = tuple(names)  # of the source
        self.wrt, self.results = wrt, results
        self.generic = source.generic

    @property
    def text(self) -> str:
        """The program as the user wrote it."""
        return self.source.text

    @property
    def title(self) -> str:
        """The name in logs."""
        return f"gradient of {self.source.title}"

    def build(self, parameters: tuple[Parameter, ...], extents: Mapping[Symbol, int], options: Options) -> Built:
        """The graph of the gradients, and the guards of both graphs."""
        b, gradients = self._derived(parameters, extents, options)
        return b.finish(gradients), b.guards

    def build_differentiable(
        self, parameters: tuple[Parameter, ...], extents: Mapping[Symbol, int], options: Options
    ) -> Built:
        """`build` for a graph that will be differentiated again."""
        b, gradients = self._derived(parameters, extents, options)
        return b.differentiable(gradients), b.guards

    def _derived(self, parameters: tuple[Parameter, ...], extents: Mapping[Symbol, int], options: Options):
        from ..gradients.reverse import vjp
        from ..gradients.unbroadcast import alike

        source_parameters = parameters[: len(self.names)]
        build = getattr(self.source, "build_differentiable", self.source.build)
        graph, guards = build(source_parameters, extents, options)
        b = GraphBuilder(parameters, extents, options.rounding)
        b.checks += graph.checks
        b.guards.update(guards)
        results = [graph.results[k] for k in self.results]
        cotangent_parameters = [b.parameter(k) for k in range(len(source_parameters), len(parameters))]
        cotangents = [alike(b, g, r.type) for g, r in zip(cotangent_parameters, results)]
        used_parameters = {n.attr: n for n in graph.nodes() if n.op in ("param", "scalar")}
        variables = [used_parameters.get(k, b.parameter(k)) for k in self.wrt]
        return b, vjp(b, results, cotangents, variables)

    def cache_parts(self) -> dict | None:
        """The JSON that its plans depend on."""
        parts = getattr(self.source, "differentiable_parts", self.source.cache_parts)()
        return None if parts is None else {"gradient": json.dumps([parts, self.names, self.wrt, self.results])}

    def header(self) -> tuple[str, ...]:
        """The program that is differentiated, and with respect to what."""
        return (*self.source.header(), f"gradients by {', '.join(self.names[k] for k in self.wrt)}")


_known: WeakKeyDictionary[Program, dict[tuple, Program]] = WeakKeyDictionary()


def gradient_program(program: Program, wrt: tuple[int, ...], results: tuple[int, ...]) -> Program:
    """The program of the gradients of these results with respect to these parameters; made once."""
    programs = _known.setdefault(program, {})
    if (wrt, results) not in programs:
        source = GradientSource(program.source, program.names, wrt, results)
        names = (*program.names, *(unused_name(f"gradient_{k}", program.names) for k in results))
        programs[wrt, results] = Program(source, names, program.options.changed({"max_kernels": None}))
    return programs[wrt, results]
