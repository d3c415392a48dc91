"""GEMM launches by a library, cuBLAS or BLAS: the interface that calls and the generated code of warm calls use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..kernel_ir.gemm import Gemm, gemm_to_json
from .native_entry import NO_WATCH, Watch
from .parameter_packing import BlockLayout, Namer


class GemmLaunch:
    """One GEMM by a library: `run` takes the addresses of left, right and out, and on a device the stream.

    `layout` has a pointer for each of the three.
    """

    on_device: bool
    library: str
    code_identity = None  # no machine code of ours

    def __init__(self, product: Gemm, layout: BlockLayout) -> None:
        self.product, self.layout = product, layout

    def run(self, *addresses: int) -> None:
        """Compute or launch the product of the arrays at these addresses."""
        raise NotImplementedError

    def stored_product(self) -> dict[str, Any]:
        """The product as JSON (see library_launch.py)."""
        return {"gemm": gemm_to_json(self.product)}

    def watches(self, watch: Watch, constants: Mapping[int, Any]) -> bool:
        """False, as a library's launch checks no addresses; see `LaunchRecord.watches`."""
        return False

    def repeat_lines(
        self, words: Sequence[str], constants: Mapping[int, Any], name: Namer, watch: Watch = NO_WATCH
    ) -> tuple[list[str], list[str]]:
        """See `LaunchRecord.repeat_lines`."""
        given = [f"{words[slot.argument]} + {slot.shift}" for slot in self.layout.pointer_slots]
        given += ["stream"] if self.on_device else []
        return [], [f"{name(self.run)}({', '.join(given)})"]
