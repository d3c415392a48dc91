"""`load`: the kernel or function of a saved file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .aot.plans import SavedPlans
from .aot.saved import SavedFile, parsed, read
from .aot.source import SavedText
from .api import Kernel
from .errors import public_api

if TYPE_CHECKING:
    from .loaded_function import LoadedFunction


@public_api
def load(path: Any, *, compile: bool = True) -> Kernel | LoadedFunction:
    """The kernel, or the function, of a file that `save` wrote: its calls run the machine code in it, and need no
    compiler.

    The file holds machine code, which the system loads: take it only from whom you would take a program. A call for
    which it has no kernel is an error that says which it has (DTypeError, ShapeError, DeviceError, of a function
    ArgumentError too). For a program, if the compilers are installed, one is compiled instead, and the logger
    `fusedsl` logs a WARNING; `compile=False` forbids that.

    Raises ArgumentError if the file is damaged or of another version of fusedsl, DeviceError if all of it is for other
    CPUs, OSError if it cannot be read.
    """
    saved = replace(read(path), compiles=compile)
    if "function" not in saved.called:
        return _kernel(saved)
    from .loaded_function import LoadedFunction

    return LoadedFunction(saved)


def _restored(data: bytes, name: str, compiles: bool = True) -> Kernel:
    """The kernel of a file's bytes: so it is unpickled."""
    return _kernel(replace(parsed(data, name), compiles=compiles))


def _kernel(saved: SavedFile) -> Kernel:
    source = SavedText(saved)
    kernel = Kernel.__new__(Kernel)
    kernel._definition = (saved.called["text"], saved.called["params"], saved.called["constants"])
    kernel._begin(
        source,
        SavedPlans(saved, source, saved.options, saved.name),
        (_restored, (saved.data, saved.name, saved.compiles)),
    )
    return kernel
