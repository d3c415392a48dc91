"""A kernel made ready to run: its instructions as steps in basic blocks, and its variables at their places."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from . import access, tensor  # noqa: F401  (they fill the table)
from .memory import Arena
from .operands import Step, guarded
from .sync import control, ends_block, fall_through
from .syntax import SIZE, Instruction, Kernel, Unsupported, Variable, parse
from .table import BUILDERS
from .targets import check_target


@dataclass(frozen=True)
class Block:
    """Steps that run one after another, and what comes after them; `text` is the last instruction's."""

    steps: tuple[Step, ...]
    control: Any
    text: str


class Program:
    """A kernel of a module, ready to run in any arena."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.threads = kernel.max_threads
        self.places: dict[str, int] = {}
        self.shared_bytes = self._place("shared")
        self.local_bytes = self._place("local")
        self.shared_unit = min((_width(ins) for ins in kernel.body if _may_share(ins)), default=4)
        self.blocks = _blocks(kernel)
        sizes = {r.number: r.size for r in kernel.all_registers}
        self.register_sizes = [sizes[k] for k in range(kernel.registers)]

    def _place(self, space: str) -> int:
        """Variables of a space one after another, with those of unknown size at the end; how many bytes they take."""
        end = 0
        found = [v for v in self.kernel.variables.values() if v.space == space]
        for variable in sorted(found, key=lambda v: v.size == 0):
            end = -(-end // variable.align) * variable.align
            self.places[variable.name] = end
            end += variable.size
        return end

    def global_address(self, arena: Arena, variable: Variable) -> int:
        """Where a variable of the module stands in an arena; it is placed there when it is first needed."""
        key = (self.kernel.name, variable.name)
        if key not in arena.variables:
            arena.variables[key] = arena.allocate(variable.size)
            arena.write(arena.variables[key], variable.data.ljust(variable.size, b"\0"))
        return arena.variables[key]


def _may_share(ins: Instruction) -> bool:
    """Whether an instruction may reach shared memory."""
    if ins.name == "cp":
        return True
    spaces = [m for m in ins.modifiers if m in ("global", "local", "param", "const")]
    return ins.name in ("ld", "st", "atom", "red") and not spaces


def _width(ins: Instruction) -> int:
    return SIZE.get(ins.types[-1], 4) if ins.types else 4


def _blocks(kernel: Kernel) -> list[Block]:
    body = kernel.body
    starts = sorted({0, *kernel.labels.values(), *(k + 1 for k, ins in enumerate(body) if ends_block(ins))})
    starts = [k for k in starts if k < len(body)]
    numbers = {start: k for k, start in enumerate(starts)}
    labels = {name: numbers[k] for name, k in kernel.labels.items() if k in numbers}
    found = []
    for here, (begin, end) in enumerate(zip(starts, [*starts[1:], len(body)])):
        last = body[end - 1]
        jumps = ends_block(last)
        plain = body[begin : end - 1] if jumps else body[begin:end]
        ending = control(last, here, labels) if jumps else fall_through(here + 1)
        found.append(Block(tuple(map(_step, plain)), ending, last.text))
    return found


def _step(ins: Instruction) -> Step:
    if ins.name not in BUILDERS:
        raise Unsupported(ins.text)
    return guarded(BUILDERS[ins.name](ins), ins.guard)


@lru_cache(maxsize=256)
def load(text: str) -> dict[str, Program]:
    """The kernels of a PTX text, by name."""
    kernels = parse(text).kernels
    check_target(text, (ins for kernel in kernels.values() for ins in kernel.body))
    return {name: Program(kernel) for name, kernel in kernels.items()}
