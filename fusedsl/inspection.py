"""`Inspectable`: the methods of kernels and fused functions that explain, compile ahead and save a call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from .errors import ArgumentError, public_api

if TYPE_CHECKING:
    from typing_extensions import Self

    from .program import Program
    from .report.explain import Explanation
    from .report.resources import Resources

Inspected = TypeVar("Inspected")


class _Default:
    """The default of an option in a signature: told from the same value that a caller gives."""

    def __init__(self, value: Any):
        self.value = value

    def __repr__(self) -> str:
        return repr(self.value)


NONE: Any = _Default(None)
TRUE: Any = _Default(True)
FALSE: Any = _Default(False)
SM90: Any = _Default((90,))


class GivenCall(NamedTuple):
    """A call that is inspected: positional arguments, keywords, and the options beside them with their defaults."""

    args: Sequence[Any]
    named: Mapping[str, Any]
    options: Mapping[str, Any] = MappingProxyType({})


class SavedCall(NamedTuple):
    """What `save` writes for some arguments."""

    record: dict[str, Any]  # of what is called
    program: Program
    values: Sequence[Any]
    targets: dict[str, Any]  # the option `cc`, if it was given


class Inspectable(ABC):
    """What `Kernel` and `Fused` share: inspection of a call, whose arguments are arrays, or specs in their place.

    A keyword that is also a parameter of the program is its argument; with the argument by position, it is the option.
    """

    @abstractmethod
    def _inspect(self, given: GivenCall, look: Callable[..., Inspected]) -> Inspected:
        """The result of `look`, given the program that these arguments would run, its values, and the options."""

    @abstractmethod
    def _to_save(self, given: GivenCall) -> SavedCall:
        """What `save` writes for these arguments. ArgumentError for `device=`."""

    @property
    @abstractmethod
    def _title(self) -> str:
        """One line that names the program where progress is shown."""

    @public_api
    def explain(
        self,
        /,
        *args: Any,
        device: str | None = NONE,
        cc: Any = NONE,
        compile: bool = TRUE,
        measure: bool = FALSE,
        **named: Any,
    ) -> Explanation:
        """The kernels that a call with these arguments launches, and why, as an Explanation.

        `str()` of it is text, `to_dict()` data, `mermaid()` and `dot()` are diagrams. The target is the device of the
        arrays (`device` option included); specs alone mean CUDA with compute capability 9.0. `device="cpu"` or
        `"cuda"`, or `cc=80`, name another target. For CUDA the kernels are compiled, for real registers;
        `compile=False` leaves the predicted ones. No GPU is needed, unless `measure=True` asks for the time of each
        kernel: then the target is this machine, and the kernels run on the arguments (specs are filled with random
        numbers), into memory of their own.

        Raises what a call would raise for the program, shapes and dtypes; ArgumentError for an unknown device or cc.
        """
        from .report.explain import explain

        options = {"device": device, "cc": cc, "compile": compile, "measure": measure}
        return self._inspect(GivenCall(args, named, options), explain)

    @public_api
    def source(self, /, *args: Any, device: str | None = NONE, cc: Any = NONE, **named: Any) -> str:
        """The generated Python of every kernel in launch order, for the target that `explain` describes.

        Nothing is compiled, and neither a GPU nor Numba is needed.
        """
        from .report.explain import source

        return self._inspect(GivenCall(args, named, {"device": device, "cc": cc}), source)

    @public_api
    def resources(self, /, *args: Any, cc: Any = NONE, **named: Any) -> Resources:
        """Registers, spills, shared memory and occupancy of each CUDA kernel, from the real compiler; needs no GPU.

        `cc` is the compute capability (80, 90, 100); by default that of the arrays' GPU, else 90. The result is a
        tuple of KernelResources that prints as a table. CompileError where numba-cuda is missing.
        """
        from .report.resources import resources

        return self._inspect(GivenCall(args, named, {"cc": cc}), resources)

    @public_api
    def compile(self, /, *args: Any, device: str | None = NONE, cc: Any = NONE, **named: Any) -> Self:
        """Compile now, into memory and the cache, what the first call with these arguments would compile.

        On a GPU the kernels are loaded too; the driver first waits for the GPU's queued work. Specs alone mean arrays
        of this machine: on its first GPU, or its CPU if it has none.
        """
        from . import progress
        from .report.resources import compile_ahead

        with progress.watched(self._title):
            self._inspect(GivenCall(args, named, {"device": device, "cc": cc}), compile_ahead)
        return self

    @public_api
    def report(
        self,
        path: Any,
        /,
        *args: Any,
        device: str | None = NONE,
        cc: Any = NONE,
        compile: bool | Sequence[Any] = TRUE,
        measure: bool = FALSE,
        **named: Any,
    ) -> None:
        """Write `explain` of these arguments as a page: one HTML file, which makes no requests.

        It shows the program with the kernels that compute each expression, the operations before and the kernels after
        fusion, both on a roofline, registers and occupancy on five architectures, the tiles of attention masks, the
        generated files beside their PTX (and SASS, if nvdisasm is installed), and the program after each pass. On the
        CPU the roofline is that of the time model, and with `measure=True` of this machine.

        The other arguments are those of `explain`; `compile` may also list the compute capabilities to compile for, as
        in `compile=(80, 90)`. OSError if the file cannot be written.
        """
        from .report.page import write_page

        options = {"device": device, "cc": cc, "compile": compile, "measure": measure}
        self._inspect(GivenCall(args, named, options), partial(write_page, path))

    @public_api
    def save(self, path: Any, /, *args: Any, cc: Any = SM90, **named: Any) -> None:
        """Compile for these arguments (arrays or specs) and write it all to one file, for `fusedsl.load`.

        `cc` lists targets: compute capabilities (80, 90, 100), "cpu" (on Linux, as this machine is: x86-64-v3, which
        has AVX2 and FMA, or AArch64) and "cpu-native" (all that this machine's CPU has). Code for the CPU serves the
        shapes and layouts of these dtypes and ranks, code for GPUs the shapes that need no other binary. A fused
        function is saved for the way that it takes with these arguments: what it reads from outside stays as it is
        now, and numbers that it uses as axes, shapes or in branches are part of the signature.

        Raises what a call would raise for the program, shapes and dtypes; CompileError if a compiler is missing;
        ArgumentError for an unknown target, and for a function that reads arrays from outside, or takes or returns
        what is no array, number, string, None, tuple, list or dict of them; Unsupported for the CPU outside of Linux;
        OSError if the file cannot be written.
        """
        from .aot.save import save

        saved = self._to_save(GivenCall(args, named, {"cc": cc}))
        save(path, saved.record, saved.program, saved.values, **saved.targets)


def split_options(
    named: Mapping[str, Any], free: Collection[str], options: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(arguments by name, options that were given); `free` are the parameters that no positional argument takes.

    A keyword that is called as a free parameter is the argument, and else the option.
    """
    given = {name: value for name, value in options.items() if not isinstance(value, _Default)}
    arguments = {name: value for name, value in given.items() if name in free}
    return {**named, **arguments}, {name: value for name, value in given.items() if name not in free}


def check_save_keywords(named: Mapping[str, Any], parameters: Collection[str]) -> None:
    """ArgumentError for `device=`, which `save` does not take: its targets are `cc`."""
    if "device" in named and "device" not in parameters:
        help = 'write cc="cpu" for this kind of CPU, cc=90 for a GPU of that compute capability, or a list of them'
        raise ArgumentError("save takes no device", "argument.unused", help=help)
