"""Names of a kernel's parameters in a generated file, and the kernel's signature."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.parameter_layout import KernelParam, kernel_params

BLOCK_NUMBER = "block_number"  # what a subkernel is told of its place


def indented(lines: Iterable[str], depth: int = 1) -> list[str]:
    return [f"{'    ' * depth}{line}" if line else "" for line in lines]


@dataclass(frozen=True)
class Names:
    """Names of a kernel's parameters."""

    kernel: KernelIR

    def operand(self, k: int) -> str:
        name = self.kernel.operands[k].name
        return name if sum(o.name == name for o in self.kernel.operands) == 1 else f"{name}_{k}"

    def pointer(self, k: int) -> str:
        return f"{self.operand(k)}_at"

    def extent(self, axis: int) -> str:
        return f"n{axis}"

    def place(self, axis: int) -> str:
        return f"places{axis}"

    def magic(self, axis: int) -> str:
        return f"m{axis}"

    def stride(self, k: int, axis: int) -> str:
        return f"{self.operand(k)}_stride{axis}"

    def word(self, k: int) -> str:
        return f"{self.kernel.scalars[k].name}_word"

    def parameter(self, slot: KernelParam) -> str:
        match slot.kind:
            case "pointer":
                return self.pointer(slot.index)
            case "extent":
                return self.extent(slot.index)
            case "place":
                return self.place(slot.index)
            case "stride":
                return self.stride(slot.index, slot.axis)
            case "magic":
                return self.magic(slot.index)
            case "workspace" | "semaphores":
                return slot.kind
            case "gap":
                return f"gap{slot.index}"
            case "window":
                return f"map{slot.index}_{slot.axis}"
            case _:
                return self.word(slot.index)

    def parameters(self) -> list[str]:
        """The names of all parameters, in the order of the parameter block."""
        return [self.parameter(slot) for slot in kernel_params(self.kernel)]

    def signature(self) -> list[str]:
        """`def kernel(…):`, broken into lines of parameters of one kind; of a part, `def work(block_number, …):`."""
        kinds = groupby(kernel_params(self.kernel), lambda slot: (slot.kind, slot.kind == "window" and slot.index))
        lines = [", ".join(map(self.parameter, slots)) + "," for _, slots in kinds]
        if self.kernel.is_subkernel:
            return ["@subkernel", "def work(", *indented([f"{BLOCK_NUMBER},", *lines]), "):"]
        return ["def kernel(", *indented(lines), "):"]
