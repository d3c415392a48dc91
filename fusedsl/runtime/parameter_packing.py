"""Packs payloads (addresses and numbers) into parameter blocks, whose layout kernel_ir/parameter_layout.py says."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from operator import add, itemgetter
from typing import Any, NamedTuple

from ..errors import CompileError, DTypeError
from .native_entry import AddressSlot, EntryMemory, Watch

BLOCK_BYTES = 32_760  # limit of sm_70 and later under CUDA 12.1 and later, in whole slots


class PointerSlot(NamedTuple):
    """Eight bytes at `offset` of the block: payload `argument` plus `shift` bytes."""

    offset: int
    argument: int
    shift: int = 0


class ScalarSlot(NamedTuple):
    """Eight bytes at `offset` of the block, the low ones filled with payload `argument` in a `struct` format."""

    offset: int
    argument: int
    format: str


Namer = Callable[[Any], str]
"""Gives a constant a name in generated lines."""


class EntryLayout(NamedTuple):
    """The layout of a builtin: the memory that it copies, and the payloads that it takes."""

    memory: EntryMemory
    pointer_payloads: tuple[int, ...]
    scalar_payloads: tuple[int, ...]

    def watches(self, watch: Watch) -> bool:
        """Whether all that is watched, by payload, is among the builtin's arguments."""
        return set(watch.remainders) <= set(self.pointer_payloads)

    def watch(self, watch: Watch) -> Watch:
        """The same watch, by argument index of the builtin."""
        return watch.at({payload: index for index, payload in enumerate(self.pointer_payloads)})


class BlockLayout:
    """How payloads become a block: pointers first, scalars last, constants of the template between them.

    `names` are the arguments' names, for the error about a number that does not fit.
    """

    def __init__(
        self,
        template: bytes,
        pointers: Sequence[PointerSlot],
        scalars: Sequence[ScalarSlot] = (),
        names: Sequence[str] = (),
    ) -> None:
        first_scalar = len(template) - 8 * len(scalars)
        starts = [p.offset for p in pointers]
        if starts != sorted(starts) or any(at % 8 for at in starts) or (starts and starts[0]):
            raise ValueError("pointer slots must stand in order, from the block's start")
        if [s.offset for s in scalars] != list(range(first_scalar, len(template), 8)):
            raise ValueError("scalar slots must end the block, in order")
        if len(template) > BLOCK_BYTES:
            message = f"the kernel takes {len(template)} bytes of parameters"
            help = f"{BLOCK_BYTES} is what CUDA allows: split the expression"
            raise CompileError(message, "compile.parameters", help=help)
        gaps = [bytes(template[at + 8 : after]) for at, after in pairwise(starts)]
        self.fixed = bytes(template[starts[-1] + 8 if starts else 0 : first_scalar])
        tails = "".join(f"{s.format}{8 - struct.calcsize('<' + s.format)}x" for s in scalars)
        leading = "".join(f"Q{len(gap)}s" if gap else "Q" for gap in [*gaps, b""][: len(pointers)])
        self.format = f"{leading}{len(self.fixed)}s{tails}"
        self.pack_scalars = struct.Struct(f"<{tails}").pack
        self.pointers = _pointer_reader(pointers, gaps)
        self.scalars = _reader([s.argument for s in scalars]) if scalars else None
        self.pointer_slots, self.scalar_slots, self.names = tuple(pointers), tuple(scalars), tuple(names)
        self.template = template

    def entry_layout(self, head: bytes, constants: Mapping[int, Any]) -> EntryLayout:
        """`head` and the block, with the `constants` among the payloads filled in.

        DTypeError for a constant that does not fit.
        """
        memory, first = bytearray(head + self.template), len(head)
        address_slots, given = [], []
        for slot in self.pointer_slots:
            if slot.argument in constants:
                struct.pack_into("<Q", memory, first + slot.offset, constants[slot.argument] + slot.shift)
            else:
                address_slots.append(AddressSlot((first + slot.offset) // 8, slot.shift))
                given.append(slot.argument)
        numbers = [slot.argument for slot in self.scalar_slots]
        start = len(memory) - 8 * len(numbers)
        if set(numbers) <= constants.keys():
            memory[start:], numbers = self.pack_scalars(*self.fit(constants)), []
        return EntryLayout(EntryMemory(bytes(memory), address_slots, start // 8), tuple(given), tuple(numbers))

    def block(self, payloads: Sequence[Any]) -> bytes:
        """The parameter block of these payloads."""
        numbers = self.fit(payloads) if self.scalars else ()
        return struct.pack(f"<{self.format}", *self.pointers(payloads), self.fixed, *numbers)

    def call_lines(
        self, entry: str, entry_layout: EntryLayout, words: Sequence[str], name: Namer
    ) -> tuple[list[str], str]:
        """Lines that pack the numbers of a builtin, and its call, given the expression of each payload."""
        packs, given = self.pack_lines(entry_layout, words, name), [words[k] for k in entry_layout.pointer_payloads]
        if not packs:
            return packs, f"{entry}({', '.join(given)})"
        packed = f"packed_{entry}"
        return [f"{packed} = {packs[0]}"], f"{entry}({', '.join([*given, packed])})"

    def pack_lines(self, entry_layout: EntryLayout, words: Sequence[str], name: Namer) -> list[str]:
        """The call that packs the numbers of a builtin; nothing if there are none."""
        return (
            [f"{name(self.pack_scalars)}({', '.join(words[k] for k in entry_layout.scalar_payloads)})"]
            if entry_layout.scalar_payloads
            else []
        )

    def check(self, payloads: Sequence[Any]) -> None:
        """DTypeError for an integer that does not fit its slot."""
        try:
            self.pack_scalars(*self.scalars(payloads))  # type: ignore[misc]
        except (struct.error, OverflowError):
            self.fit(payloads)

    def fit(self, payloads: Sequence[Any] | Mapping[int, Any]) -> list[Any]:
        """The numbers as their slots can hold them: a float beyond float32 rounds to infinity, as in NumPy.

        DTypeError for an integer that does not fit.
        """
        fitted = []
        for slot in self.scalar_slots:
            number = payloads[slot.argument]
            try:
                struct.pack("<" + slot.format, number)
            except (struct.error, OverflowError):
                if not isinstance(number, float) or slot.format != "f":
                    raise self._misfit(number, slot) from None
                number = math.copysign(math.inf, number)
            fitted.append(number)
        return fitted

    def _misfit(self, number: Any, slot: ScalarSlot) -> DTypeError:
        from ..ir.checks import spelled

        name = f"{self.names[slot.argument]} = " if slot.argument < len(self.names) else ""
        help = "pass a NumPy scalar of the type that is meant, such as numpy.int64(...)"
        shown = spelled(number) if isinstance(number, int) else repr(number)
        return DTypeError(f"{name}{shown} does not fit {_DTYPE_OF[slot.format]}", "dtype.overflow", help=help)


_NAMES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
FORMAT_OF = dict(zip(_NAMES, "?bhiqBHIQfd"))  # struct format by the name of a compute type
_DTYPE_OF = {format: name for name, format in FORMAT_OF.items()}


def _reader(indices: Sequence[int]) -> Callable[[Sequence[Any]], tuple]:
    if len(indices) > 1:
        return itemgetter(*indices)
    return lambda payloads: tuple(payloads[i] for i in indices)


def _pointer_reader(pointers: Sequence[PointerSlot], gaps: Sequence[bytes]) -> Callable[[Sequence[Any]], tuple]:
    """A function that reads the pointers out of payloads, with the constant gaps between them."""
    read = _reader([p.argument for p in pointers])
    shifts = tuple(p.shift for p in pointers)
    if any(gaps):
        tails = [(gap,) if gap else () for gap in (*gaps, b"")]
        return lambda payloads: tuple(
            x for at, shift, tail in zip(read(payloads), shifts, tails) for x in (at + shift, *tail)
        )
    if not any(shifts):
        return read
    return lambda payloads: tuple(map(add, read(payloads), shifts))
