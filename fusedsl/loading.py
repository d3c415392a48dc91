"""`load`: what a file of saved kernels holds, ready to be called."""

from __future__ import annotations

from typing import Any

from .aot.plans import SavedPlans, SavedText
from .aot.saved import Saved, parsed, read
from .api import Kernel


def load(path: Any) -> Kernel:
    """The kernel of a file that `Kernel.save` wrote: its calls run the machine code in it, and need no compiler.

    The file holds machine code, which the system loads: take it only from whom you would take a program. A call for
    which it has no kernel is an error that says which it has (DTypeError, ShapeError, DeviceError); where Numba is
    installed one is compiled instead, with a line in the log (`logging.getLogger("fusedsl")`).

    Raises ArgumentError where the file is damaged or of another version of fusedsl, DeviceError where all of it is
    for other CPUs, OSError where it cannot be read.
    """
    return _kernel(read(path))


def _kernel(saved: Saved) -> Kernel:
    source = SavedText(saved)
    made = Kernel.__new__(Kernel)
    made._made_from = tuple(saved.called[name] for name in ("text", "params", "constants"))
    made._begin(source, SavedPlans(saved, source, saved.options, saved.name), (restored, (saved.data, saved.name)))
    return made


def restored(data: bytes, name: str) -> Kernel:
    """The kernel of a file's bytes: so it is unpickled."""
    return _kernel(parsed(data, name))
