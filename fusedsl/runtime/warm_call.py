"""Warm calls of prepared calls: a few generated lines of Python that check types and layouts, then launch.

`PreparedCall` and `argument_keys` handle any call with known layouts. A warm call is one such call: types, shapes and
strides are constants, and there is no loop. It returns None for any other call, and the general path runs.

`repeat_lines` of launch.py gives the lines that pack parameters (`pack_lines`, `call_lines` of parameter_packing.py)
and launch. The kernels are launched by builtins (native_entry.py) that share no state between calls. The first builtin
also checks what depends on addresses alone: alignment and overlaps.
"""

# measured: `a*b + c` with out= beside an H200, CPython 3.12: 3.1 µs for CuPy arrays and 3.7 for torch tensors, of which
# the driver's launch of a graph takes 1.3 (of a kernel, 3.3); torch.mul takes 6.2 there, CuPy's multiply 7.7.

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from ..generated_code import NotRepeatable, WarmCallBuilder
from .argument_keys import address_of, numpy_data_offset, read_word
from .arrays import ArrayFacts
from .check_outputs import version_counter
from .cuda_streams import stream_expression
from .native_entry import NO_WATCH, Pair, Watch, watcher
from .outputs import Allocator
from .prepared_call import PreparedCall

WarmCall = Callable[[Sequence[Any], Any], Any]
"""(arguments, `out`) to the result (a tuple of several); None if the call is of another kind."""

MISFIT = (struct.error, OverflowError)  # a number that its parameter cannot hold


def no_warm_call(values: Sequence[Any], out: Any) -> None:
    """The warm call of a program without one."""


def build_warm_call(
    call: PreparedCall, values: Sequence[Any], outs: Sequence[Any] | None, results: Sequence[Any]
) -> WarmCall:
    """A function that repeats `call`, which made `results`, for arguments of the same kinds and layouts as these."""
    try:
        return ProgramWarmCall(call).build(values, outs, results)
    except NotRepeatable:
        return no_warm_call


class ProgramWarmCall(WarmCallBuilder):
    """The warm call of a prepared call."""

    def __init__(self, call: PreparedCall):
        super().__init__()
        self.call = call
        self.tensors: dict[str, Any] = {}  # torch tensors, checked together
        self.remainders: dict[int, int] = {}  # addresses modulo 16, by payload
        self.pairs: list[Pair] = []  # arrays that may not overlap
        self.arguments = 0  # number of arguments

    def build(self, values: Sequence[Any], outs: Sequence[Any] | None, allocated: Sequence[Any]) -> WarmCall:
        arguments, results = [f"a{k}" for k in range(len(values))], [f"r{k}" for k in range(len(self.call.allocators))]
        self.arguments = len(arguments)
        self.unpack(arguments, "values")
        given = self._outputs(outs)
        payloads = [self._take(k, name, value) for k, (name, value) in enumerate(zip(arguments, values))]
        for k, out in given.items():
            self._take_out(k, out)
        self._check_tensors()
        words, constants = self._words(payloads, results)
        watch = self._watched(words, constants)
        for k, make in enumerate(self.call.allocators):
            if k not in given:
                self._make(f"r{k}", make)
                self.add(f"r{k}_at = {self._address(f'r{k}', allocated[k])}")
        self._launch(words, constants, watch)
        if self.call.library == "torch" and given:
            self.add(f"{self.name(version_counter())}(({', '.join(f'r{k}' for k in given)},))")
        self.add(f"return {results[0] if len(results) == 1 else '(' + ', '.join(results) + ')'}")
        return self.function("warm_call", "values, out")

    def _make(self, name: str, make: Callable[[], Any]) -> None:
        """Allocate; if memory is exhausted, the general path raises the error."""
        if not isinstance(make, Allocator):
            raise NotRepeatable
        self.attempt(self.name(make.exhausted), f"{name} = {self.name(make.make)}()")

    def _words(self, payloads: Sequence[str], results: Sequence[str]) -> tuple[list[str], dict[int, int]]:
        """The expression of each payload, and the payloads that are constant."""
        call = self.call
        words = [*payloads, *(f"{name}_at" for name in results)]
        words.append("0" if call.workspace is None else "memory_at")
        words.append("0" if call.tickets is None else "tickets")
        constants = {k: 0 for k, word in enumerate(words) if word == "0"}
        constants |= dict(enumerate(call.numbers, len(words)))
        return [*words, *map(str, call.numbers)], constants

    def _watched(self, words: Sequence[str], constants: Mapping[int, int]) -> Watch:
        """The guard on addresses that the first launch checks: alignment, and outputs that overlap nothing else.

        If the first launch cannot check it, generated lines do.
        """
        watch, first = Watch(self.remainders, self.pairs), self.call.records[0] if self.call.records else None
        if not self.remainders or (first is not None and first.watches(watch, constants)):
            return watch
        watched = list(self.remainders)
        violated = watcher(watch.at({payload: k for k, payload in enumerate(watched)}))
        self.unless(f"{self.name(violated)}({', '.join(words[k] for k in watched)})")
        return NO_WATCH

    def _launch(self, words: Sequence[str], constants: Mapping[int, int], watch: Watch) -> None:
        """Allocate the workspace, then launch; the first launch checks addresses before anything runs."""
        call = self.call
        if call.workspace is not None:
            self._make("memory", call.workspace)
            self.add(f"memory_at = {self.name(address_of)}(memory)")
        if call.on_device:
            self.add(f"stream = {stream_expression(call.stream, self.name)}")
        if call.tickets is not None:
            self.add(f"tickets = {self.name(call.tickets)}(stream)")
        generated = [
            record.repeat_lines(words, constants, self.name, NO_WATCH if k else watch)
            for k, record in enumerate(call.records)
        ]
        if packs := [line for lines, _ in generated for line in lines]:
            self.attempt(self.name(MISFIT), *packs)
        self.add(*(line for _, lines in generated for line in lines))

    # -- arguments and outputs

    def _outputs(self, outs: Sequence[Any] | None) -> dict[int, Any]:
        """Lines that name the given outputs `r0` …; these, by number."""
        if outs is None or all(out is None for out in outs):
            self.unless("out is not None")
            return {}
        given = {k: out for k, out in enumerate(outs) if out is not None}
        if len(outs) == 1:
            self.add("r0 = out")
            return given
        self.unless(f"type(out) is not tuple or len(out) != {len(outs)}")
        self.add(f"{', '.join(f'r{k}' for k in range(len(outs)))}, = out")
        missing = [f"r{k} is not None" for k in range(len(outs)) if k not in given]
        if missing:
            self.unless(*missing)
        return given

    def _take(self, k: int, name: str, value: Any) -> str:
        """Lines that check that `name` is of the kind of `value`; its payload as an expression."""
        if type(value) in (bool, int, float):
            self.unless(self.other_type(name, value))
            return name
        if type(value).__module__ == "numpy" and not getattr(value, "shape", (0,)):  # a scalar, or of rank 0
            more = f" or {name}.shape" if type(value).__name__ == "ndarray" else ""
            self.unless(f"{self.other_type(name, value)}{more}", f"{name}.dtype is not {self.name(value.dtype)}")
            self.add(f"{name}_at = {name}.item()")
            return f"{name}_at"
        return self._take_array(k, name, value)

    def _take_array(self, k: int, name: str, value: Any) -> str:
        """`_take` for an array that is payload `k`; its address."""
        kind, torch, cupy = type(value), sys.modules.get("torch"), sys.modules.get("cupy")
        if torch is not None and kind in (torch.Tensor, torch.nn.Parameter) and value.layout is torch.strided:
            if not value.shape and value.device.type == "cpu":  # passed as a number unless it is written
                raise NotRepeatable
            self.tensors[name] = value
        elif _is_numpy(value):
            self.unless(*self._alike(name, value), f"{name}.strides != {value.strides}")
        elif cupy is not None and kind is cupy.ndarray:
            packed = getattr(value, "_c_contiguous", False)
            form = f"not {name}._c_contiguous" if packed else f"{name}.strides != {value.strides}"
            many_devices = cupy.cuda.runtime.getDeviceCount() > 1
            self.unless(*self._alike(name, value), form,
                         *([f"{name}.data.device_id != {value.data.device_id}"] if many_devices else []))  # fmt: skip
        else:
            raise NotRepeatable
        self.remainders[k] = address_of(value) & 15
        if name not in self.tensors:
            self.add(f"{name}_at = {self._address(name, value)}")
        return f"{name}_at"

    def _alike(self, name: str, value: Any) -> list[str]:
        conditions = [self.other_type(name, value), f"{name}.dtype is not {self.name(value.dtype)}"]
        if len(value.shape) == 1 and isinstance(getattr(value, "size", None), int):  # cheaper: makes no tuple
            return [*conditions, f"{name}.size != {value.size}", f"{name}.ndim != 1"]
        return [*conditions, f"{name}.shape != {tuple(value.shape)}"]

    def _check_tensors(self) -> None:
        """Check all tensors in one call, by the guard of torch's own compiled code."""
        if not self.tensors:
            return
        torch, guards = sys.modules["torch"], tensor_guards()
        self.unless(f"{self.name(torch._C._len_torch_dispatch_stack)}()")  # make_fx and others must see the call
        if guards is not None:
            alike = guards(*self.tensors.values(), dynamic_dims_sizes=None, dynamic_dims_strides=None).check
            self.unless(f"not {self.name(alike)}({', '.join(self.tensors)})")
            if any(value.requires_grad for value in self.tensors.values()):
                self.unless(f"{self.name(torch.is_grad_enabled)}()")
        for name, value in self.tensors.items():
            if guards is None:
                packed = value.is_contiguous()
                form = f"not {name}.is_contiguous()" if packed else f"{name}.stride() != {value.stride()}"
                grad = f"{name}.requires_grad and {self.name(torch.is_grad_enabled)}()"
                self.unless(*self._alike(name, value), form, grad, f"{name}.is_neg()",
                             f"{name}.device != {self.name(value.device)}")  # fmt: skip
            self.add(f"{name}_at = {self._address(name, value)}")

    def _address(self, name: str, value: Any) -> str:
        """The expression of the address of an array of the kind of `value`."""
        if _is_numpy(value) and (head := numpy_data_offset()) is not None:
            return f"{self.name(read_word)}(id({name}) + {head}).value"
        if hasattr(value, "data_ptr"):
            return f"{name}.data_ptr()"  # measured: 20 ns less than the function of the class
        by_function = _is_numpy(value) or isinstance(value, ArrayFacts)
        return f"{self.name(address_of)}({name})" if by_function else f"{name}.data.ptr"

    def _take_out(self, r: int, out: Any) -> None:
        """Check that output `r` is of the kind of `out` and may be written: see PreparedCall.may_write."""
        call, name = self.call, f"r{r}"
        if (own := call.out_spans[r]) is None:
            raise NotRepeatable
        payload = self.arguments + r
        self._take_array(payload, name, out)
        if call.library == "numpy":
            self.unless(f"not {name}.flags.writeable")
        spans = [(k, k, *span) for k, *span in call.spans]
        spans += [(self.arguments + q, ~q, *span) for q, span in enumerate(call.out_spans[:r]) if span is not None]
        for other, k, first, end in spans:
            allowed = {distance for q, j, distance in call.disjoint if (q, j) == (r, k)}
            allowed |= {0} if (k, r) in call.in_place else set()
            self.pairs.append(Pair(payload, other, *own, first, end, tuple(sorted(allowed))))


def _is_numpy(value: Any) -> bool:
    """Whether it is a plain NumPy array."""
    return type(value).__module__ == "numpy" and type(value).__name__ == "ndarray"


@cache
def tensor_guards() -> Any:
    """torch's guard on types, layouts, devices, gradients and lazy views of several tensors, from its compiled code.

    None if this torch has no guard that distinguishes all these.
    """
    import torch

    try:
        kind = torch._C._dynamo.guards.TensorGuards
        x = torch.zeros(4, 6)
        check = kind(x, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
        others = [x[:3], x.half(), x.int(), torch.zeros(6, 4).T, torch._neg_view(x), x.to("meta"), x.to_sparse()]
        others += [torch.zeros(4, 6, requires_grad=True), torch.nn.Parameter(x, requires_grad=False)]
        with torch.no_grad():
            answer = check(torch.zeros(4, 6, requires_grad=True))
        right = answer is False or answer is True
        return kind if right and check(x) and check(x + 1) and not any(map(check, others)) else None
    except (AttributeError, RuntimeError, TypeError):
        return None
