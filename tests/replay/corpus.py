"""The corpus of the replay check: programs whose generated files are compared before and after a refactoring."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import attention_programs
import expressions
import numpy as np
import programs

import fusedsl as fd
import random_graphs
from fusedsl.report.explain import resolved_call, source

SHAPES = {"x": (37, 1000), "y": (37, 1000), "b": (1000,), "w": (37,), "c": (6, 8, 70)}
TABLES = ("ELEMENTWISE", "BROADCAST", "VIEWS", "ROWS", "AXES", "CUBES")
ATTENTION, RANDOM = 120, 250  # programs that are drawn, from seeds 0, 1, …
TARGETS = {"sm_90": ("cuda", 90), "sm_80": ("cuda", 80), "cpu": ("cpu", None)}
Call = tuple[Any, list[Any]]  # a program, and what it is called with: arrays or specs


@dataclass(frozen=True)
class Case:
    """A call under a name."""

    name: str
    call: Callable[[], Call]

    def source(self, target: str) -> str:
        """Its generated files for a target."""
        return source(*self.call(), *TARGETS[target])

    def machine_code(self, target: str) -> list[bytes]:
        """Its cubins or object files for a target; no GPU is needed."""
        case = resolved_call(*self.call(), *TARGETS[target])
        return [case.built(members).code for members in case.launches]


def corpus() -> Iterator[Case]:
    """All cases; forms of torch functions are among them where torch is installed."""
    yield from _tables()
    yield from _expressions()
    yield from _attention()
    yield from _random_graphs()
    yield from _foreach()
    yield from _torch_forms()


def _case(name: str, text: str, given: dict[str, Any]) -> Case:
    def call() -> Call:
        kernel = fd.kernel(text)
        return kernel._program, [given[parameter] for parameter in kernel.params]

    return Case(name, call)


def _tables() -> Iterator[Case]:
    given = {name: fd.spec(shape, "float32") for name, shape in SHAPES.items()}
    for table in TABLES:
        for text in getattr(programs, table):
            yield _case(f"{table.lower()}: {text}", text, given)


def _expressions() -> Iterator[Case]:
    for e in expressions.EXPRESSIONS + expressions.PRODUCTS:
        for small in (False, True):
            specs = {n: fd.spec(e.shape(n, small), e.dtype(n)) if n in e.arrays else e.inputs[n] for n in e.inputs}
            yield _case(f"expression, {'small' if small else 'large'}: {e.name}", e.text, specs)


def _attention() -> Iterator[Case]:
    for seed in range(ATTENTION):
        drawn = attention_programs.draw(seed)
        specs = {name: fd.spec(a.shape, str(a.dtype)) for name, a in drawn.arrays.items()}
        yield _case(f"attention {seed}", drawn.text, specs)


def _random_graphs() -> Iterator[Case]:
    for seed in range(RANDOM):
        drawn = random_graphs.draw(seed)

        def call(drawn: Any = drawn) -> Call:
            kernel = fd.kernel(drawn.text)
            return kernel._program, list(drawn.values(kernel.params))

        yield Case(f"random graph {seed}", call)


def _foreach() -> Iterator[Case]:
    """One update of several arrays, as an optimiser has it."""
    texts = {"sgd": "p - 0.1 * g", "momentum": "p - 0.1 * (0.9 * m + g), 0.9 * m + g"}
    for name, text in texts.items():
        for shape in ((1000,), (64, 64)):
            given = {n: np.zeros(shape, np.float32) for n in "pgm"}
            yield _case(f"foreach {name}, {len(shape)} axes", text, given)


def _torch_forms() -> Iterator[Case]:
    if importlib.util.find_spec("torch") is None:
        return
    import torch
    from test_attention_forms import FORMS, drawn

    for name, form in FORMS.items():
        arguments = [drawn(x, torch.bfloat16, torch.Generator().manual_seed(0)) for x in form.arguments]

        def call(form: Any = form, arguments: Any = arguments) -> Call:
            return fd.fuse(form.function).program(*arguments)[0], arguments

        yield Case(f"torch form: {name}", call)
