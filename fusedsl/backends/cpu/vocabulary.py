"""Vocabulary of generated CPU code: each word with its typing rule and its LLVM lowering."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from llvmlite import ir

from ...ir.types import BOOL, DTYPES, FLOAT32, FLOAT64, INT64, UINT8, DType
from ...kernel_ir.kernel import KernelIR
from .affine import NANS
from .attention_microkernel import lane_product
from .extrema import WORDS
from .extremum_microkernel import first_better
from .llvm_values import LLVMValue, intrinsic, llvm_type, select
from .math import convert, integers, ordered_bits, random, sort_keys, table
from .matmul_microkernel import tile_product
from .memory import (
    POINTER_TYPE,
    accumulate,
    allocate,
    element_address,
    element_of_byte,
    free,
    load,
    load_at,
    masked_address,
    masked_load,
    memmove,
    nan_address,
    pointer_of,
    read_slot,
    scalar,
    store,
)
from .processor import host
from .roles import ScratchArray
from .row_product_microkernel import row_product
from .row_products import PRODUCT
from .trip_counts import until_less, until_within, until_wrap
from .vector_registers import TILE_PRODUCT, VectorRegisters

POINTER = "pointer"
BASELINE_VECTORS = VectorRegisters(16, 16)  # SSE2


@dataclass(frozen=True, eq=False)
class Word:
    """A name of generated code."""

    name: str
    result: Callable  # argument types to the result type, or NotImplemented
    emit: Callable  # lowers a call


def same(*kinds):
    """Typing rule: all arguments and the result have one type."""
    return kinds[0] if all(k is kinds[0] for k in kinds) and isinstance(kinds[0], DType) else NotImplemented


def same_float(*kinds):
    return same(*kinds) if isinstance(kinds[0], DType) and kinds[0].kind == "f" else NotImplemented


def predicate(*kinds):
    return NotImplemented if same(*kinds) is NotImplemented else BOOL


def float_predicate(*kinds):
    return NotImplemented if same_float(*kinds) is NotImplemented else BOOL


def always(d):
    return lambda *kinds: d


def bits_of(kind: str):
    """Typing rule: a float to the integer type of its width."""
    return lambda d: DTYPES[f"{kind}{d.bits}"] if isinstance(d, DType) and d.kind == "f" else NotImplemented


def plain(name: str, result: Callable, meaning: Callable) -> Word:
    return Word(name, result, lambda builder, *args: meaning(*args))


OPERATORS = {
    getattr(operator, name): plain(name, result, getattr(operator, name))
    for names, result in (
        ("add sub mul truediv floordiv mod and_ or_ xor lshift rshift neg invert", same),
        ("lt le gt ge eq ne", predicate),
    )
    for name in names.split()
}
OPERATORS[operator.not_] = plain("not", lambda k: BOOL if k is BOOL else NotImplemented, operator.invert)


def arithmetic_words() -> dict[str, Word]:
    """Words of bodies: casts, select, float functions and integer functions."""
    words = {}

    def add(name: str, result: Callable, meaning: Callable) -> None:
        words[name] = plain(name, result, meaning)

    for d in DTYPES.values():
        if d.compute is d and d is not BOOL:
            add(d.name, always(d), lambda x, d=d: x.to(d))
        if d.kind in "iu":
            add(f"saturate_{d.name}", always(d), lambda x, d=d: convert.saturate(x, d))
        if d.compute is not d:
            add(f"{d.name}_round", always(FLOAT32), lambda x, d=d: convert.round_to(x, d))
    add("not_", lambda k: BOOL if k is BOOL else NotImplemented, operator.invert)
    add("bool_", always(BOOL), lambda x: x.to(BOOL))
    add("select", lambda c, a, b: same(a, b) if c is BOOL else NotImplemented, select)
    for name, meaning in table.FUNCTIONS.items():
        add(name, same_float, meaning)
    for name, meaning in table.PREDICATES.items():
        add(name, float_predicate, meaning)
    for name, (real, whole) in table.BOTH.items():
        add(name, same, lambda *args, real=real, whole=whole: (real if args[0].dtype.kind == "f" else whole)(*args))
    add("fmod_beyond", predicate, table.fmod_beyond)
    for name in ("floor_divide", "remainder", "shift_left", "shift_right", "count_ones"):
        add(name, same, getattr(integers, name))
    for name in ("philox", "philox_high", "philox_word", "philox_pair"):
        add(name, same, getattr(random, name))
    add("ldexp", lambda x, n: x, table.ldexp)
    for name in ("ascending_digit", "descending_digit", "ascending_pair", "descending_pair"):
        add(name, always(INT64), getattr(sort_keys, name))
    return words


def loop_words(vectors: VectorRegisters) -> dict[str, Word]:
    """Words of loops: parameter block, index arithmetic, scratch, reductions in registers, microkernels."""
    words = {
        "signed_bits": plain("signed_bits", bits_of("int"), LLVMValue.bits),
        "unsigned_bits": plain("unsigned_bits", bits_of("uint"), ordered_bits.unsigned_bits),
        "pointer": Word("pointer", always(POINTER), lambda b, slots, k: read_slot(b, slots, k, POINTER_TYPE)),
        "slot": Word(
            "slot", always(INT64), lambda b, slots, k: LLVMValue(b, INT64, read_slot(b, slots, k, llvm_type(INT64)))
        ),
        "smaller": plain("smaller", same, lambda a, b: intrinsic("smin", a, b)),
        "accumulate_add": Word("accumulate_add", same, lambda b, x, y: accumulate(b, "fadd", "add", x, y)),
        "accumulate_mul": Word("accumulate_mul", same, lambda b, x, y: accumulate(b, "fmul", "mul", x, y)),
        "allocate": Word("allocate", always(POINTER), allocate),
        "release": Word("release", always(None), free),
        "offset": Word("offset", always(POINTER), lambda b, p, n: b.gep(p, [n.value], source_etype=ir.IntType(8))),
    }
    for d in (FLOAT32, FLOAT64):
        words[f"product_{d.name}"] = Word("product", always(None), lane_product(vectors, d))
        words[f"{PRODUCT}_{d.name}"] = Word("sum", always(None), row_product(vectors, d))
        for meaning in (ordered_bits.largest, ordered_bits.smallest):
            name = f"{meaning.__name__}_{d.name}"
            words[name] = plain(name, always(d), partial(meaning, d))
        words[f"number_{d.name}"] = Word("number", always(d), lambda b, p, i, d=d: load(b, d, p, i))
    for d in DTYPES.values():
        if d.itemsize == 1:
            name = f"{d.name}_of"
            words[name] = plain(name, always(d.compute), lambda x, d=d: element_of_byte(x, d))
        if d.compute is d:
            name = f"scalar_{d.name}"
            words[name] = Word(name, always(d), lambda b, slots, k, d=d: scalar(b, slots, k, d))
            for fold, name in WORDS.items():
                words[f"{name}_{d.name}"] = Word(name, always(INT64), first_better(vectors, fold, d))
            if d is not BOOL:
                name = f"{TILE_PRODUCT}_{d.name}"
                words[name] = Word(name, always(None), tile_product(vectors, d))
    return words


def memory_words(kernel: KernelIR, arrays: list[ScratchArray]) -> dict[str, Word]:
    """Memory words: load<k>, store<k>, at<k> of operands, <label>_get, <label>_put of scratch, fetch_<dtype>.

    Each array has an alias scope; all fetches share one, since they only read.
    """
    count = len(kernel.operands) + len(arrays) + 1
    words = address_words((count - 1, count)) if kernel.pointers else {}
    for k, array in enumerate(arrays, len(kernel.operands)):
        d, scopes = array.dtype, (k, count)
        words[f"{array.label}_get"] = Word("get", always(d), lambda b, p, i, d=d, s=scopes: load(b, d, p, i, s))
        words[f"{array.label}_put"] = Word(
            "put", always(None), lambda b, p, i, x, d=d, s=scopes: store(b, d, p, i, x, s)
        )
    for k, operand in enumerate(kernel.operands):
        d, scopes = operand.dtype, (k, count)
        words[f"load{k}"] = Word("load", always(d.compute), lambda b, p, i, d=d, s=scopes: load(b, d, p, i, s))
        if d.itemsize == 1:
            words[f"byte{k}"] = Word("byte", always(INT64), lambda b, p, i, s=scopes: load(b, UINT8, p, i, s).to(INT64))
        words[f"store{k}"] = Word("store", always(None), lambda b, p, i, x, d=d, s=scopes: store(b, d, p, i, x, s))
        words[f"move{k}"] = Word("move", always(None), lambda b, to, source, n, d=d: memmove(b, d, to, source, n))
        words[f"at{k}"] = Word("at", always(POINTER), lambda b, p, i, d=d: element_address(b, p, i, d))
    return words


def address_words(scopes: tuple[int, int]) -> dict[str, Word]:
    """Words of loads at computed addresses, and of the trip counts of split loops."""
    words = {
        "origin": Word("origin", always(INT64), masked_address),
        "pointer_to": Word("pointer_to", always(POINTER), pointer_of),
    }
    for name in NANS:
        words[f"nans_{name}"] = Word("nans", always(INT64), lambda b, d=DTYPES[name]: nan_address(b, d))
    for d in DTYPES.values():
        words[f"fetch_{d.name}"] = Word(
            "fetch", always(d.compute), lambda b, address, wanted, d=d: masked_load(b, d, address, wanted, scopes)
        )
        words[f"element_{d.name}"] = Word(
            "element", always(d.compute), lambda b, base, index, d=d: load_at(b, d, base, index, scopes)
        )
    for meaning in (until_less, until_within, until_wrap):
        words[meaning.__name__] = plain(meaning.__name__, same, meaning)
    return words


def vocabulary(
    kernel: KernelIR, arrays: list[ScratchArray], vectors: VectorRegisters | None = None
) -> dict[str, object]:
    """The namespace of a generated file, without builtins; by default for this machine's vector registers."""
    constants = {"inf": float("inf"), "nan": float("nan")}
    return {**shared_words(vectors or host().vectors), **constants, **memory_words(kernel, arrays)}


@cache
def shared_words(vectors: VectorRegisters = BASELINE_VECTORS) -> dict[str, Word]:
    """The words that do not depend on the kernel."""
    return arithmetic_words() | loop_words(vectors)
