"""Operands as functions: what an instruction reads and writes, for the threads that run it.

A step of a program is `step(machine, at)`; `at` holds the numbers of the threads that run, or is None for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .convert import KINDS, floating
from .memory import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW
from .syntax import Address, Immediate, Instruction, Not, Register, Special, Unsupported, Variable

Lanes = Any  # np.ndarray of thread numbers, or None for all
Step = Callable[[Any, Lanes], None]
Read = Callable[[Any, Lanes], Any]
Write = Callable[[Any, Lanes, Any], None]

RAW = {0: np.dtype(bool), **{n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}}
POISON = {0: False, 1: 0xCD, 2: 0xCDCD, 4: 0xCDCDCDCD, 8: 0xCDCDCDCDCDCDCDCD}
WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW, "global": 0, "const": 0}


def constant(number: Immediate, kind: np.dtype):
    """A literal as a scalar of this type."""
    if kind == np.dtype(bool):
        return np.bool_(number.value != 0)
    if number.size:
        raw = np.array(number.value, f"u{number.size}")
        return (raw.view(f"f{number.size}") if floating(kind) else raw).astype(kind)[()]
    if floating(kind):
        return kind.type(number.value)
    return np.array(int(number.value) % (1 << 8 * kind.itemsize), f"u{kind.itemsize}").view(kind)[()]


def reader(operand: Any, kind: np.dtype) -> Read:
    """What reads an operand as numbers of a type; registers that are wider give their low bits."""
    match operand:
        case Register():
            return _register_reader(operand, kind)
        case Immediate():
            value = constant(operand, kind)
            return lambda m, at: value
        case Not(register=register):
            read = _register_reader(register, kind)
            return lambda m, at: ~read(m, at)
        case Variable():
            return lambda m, at: kind.type(m.address_of(operand))
        case Special(name=name):
            if not name.startswith("%"):
                raise Unsupported(f"the operand {name}")
            return lambda m, at: _special(m, at, name).astype(kind)
    raise Unsupported(f"the operand {operand}")


def _register_reader(register: Register, kind: np.dtype) -> Read:
    number, raw = register.number, RAW[register.size]
    same, narrow = kind.itemsize == raw.itemsize, np.dtype(f"u{kind.itemsize}")
    if register.size == 0 or kind == raw:

        def read(m, at):
            value = m.registers[number]
            return value if at is None else value[at]
    elif same:

        def read(m, at):
            value = m.registers[number]
            return (value if at is None else value[at]).view(kind)
    elif kind.itemsize < raw.itemsize:

        def read(m, at):
            value = m.registers[number]
            return (value if at is None else value[at]).astype(narrow).view(kind)
    else:
        raise Unsupported(f"{register.name} is narrower than {kind}")
    return read


def _special(m, at, name: str) -> np.ndarray:
    value = np.asarray(m.special(name))
    return value if at is None or not value.ndim else value[at]


def writer(operand: Any, kind: np.dtype) -> Write:
    """What writes numbers of a type to a register, extended to its width; None takes nothing."""
    if operand is None:
        return lambda m, at, value: None
    if not isinstance(operand, Register):
        raise Unsupported(f"writing to {operand}")
    number, size, raw = operand.number, operand.size, RAW[operand.size]
    wide = np.dtype(f"i{raw.itemsize}") if kind.kind == "i" else raw

    def write(m, at, value):
        value = np.asarray(value)
        if value.dtype != raw:
            if value.dtype.itemsize == raw.itemsize:
                value = value.view(raw)
            elif floating(value.dtype):
                value = value.view(f"u{value.dtype.itemsize}").astype(raw)
            else:
                value = value.astype(wide).view(raw)
        if at is None:
            m.registers[number] = value if value.ndim else np.full(m.lanes, value)
        else:
            if m.registers[number] is m.poison[size]:
                m.registers[number] = m.registers[number].copy()
            m.registers[number][at] = value

    return write


def type_of(ins: Instruction, place: int = -1) -> np.dtype:
    """The instruction's type."""
    return KINDS[ins.types[place]]


def guarded(step: Step, guard: tuple[Register, bool] | None) -> Step:
    """The step, by those threads alone whose guard holds."""
    if guard is None:
        return step
    number, negated = guard[0].number, guard[1]

    def run(m, at):
        value = m.registers[number]
        mask = (value if at is None else value[at]) ^ negated
        if mask.all():
            step(m, at)
        elif mask.any():
            step(m, np.flatnonzero(mask) if at is None else at[mask])

    return run


def address(operand: Address) -> Read:
    """What reads an address, as int64."""
    offset = np.int64(operand.offset)
    if operand.base is None:
        return lambda m, at: np.full(m.count(at), offset)
    if isinstance(operand.base, Variable):
        variable = operand.base
        return lambda m, at: np.full(m.count(at), np.int64(m.address_of(variable)) + offset)
    read = reader(operand.base, RAW[operand.base.size])
    if operand.base.size == 8:
        return lambda m, at: read(m, at).view(np.int64) + offset
    return lambda m, at: read(m, at).astype(np.int64) + offset


def parts(operand: Any) -> tuple:
    """The members of a vector, or the operand alone."""
    return operand if isinstance(operand, tuple) else (operand,)
