"""PTX text to data: modules, kernels, variables and instructions, with registers numbered and labels kept by name.

The grammar is that of the PTX ISA manual, as far as NVVM prints it and inline assembly writes it: scopes in braces,
vectors of registers, guards, parametrised register names (`%r<10>`). Device functions are inlined where called.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

SIZE = {"pred": 0, **{f"{kind}{bits}": bits // 8 for kind in "bsuf" for bits in (8, 16, 32, 64, 128)}}
SPACES = ("global", "shared", "local", "param", "const")


class Unsupported(Exception):
    """PTX that this interpreter has no meaning for."""


@dataclass(frozen=True)
class Register:
    """A register of a kernel: its number, and its bytes (0 for a predicate)."""

    number: int
    size: int
    name: str


@dataclass(frozen=True)
class Immediate:
    """A number: an int, or the bits of a float of `size` bytes."""

    value: int | float
    size: int = 0


@dataclass(frozen=True)
class Special:
    """A special register or a label, by name."""

    name: str


@dataclass(frozen=True)
class Variable:
    """Memory with a name."""

    name: str
    space: str
    size: int
    align: int
    data: bytes = b""
    offset: int = 0  # of a parameter


@dataclass(frozen=True)
class Address:
    """[base + offset]; the base is a register, a variable, or None."""

    base: Register | Variable | None
    offset: int


@dataclass(frozen=True)
class Not:
    """A predicate turned round."""

    register: Register


@dataclass(frozen=True)
class Instruction:
    """One instruction: `name` and `modifiers` are the opcode's parts, operands in the order of the text."""

    name: str
    modifiers: tuple[str, ...]
    operands: tuple
    guard: tuple[Register, bool] | None
    text: str

    @property
    def opcode(self) -> str:
        return ".".join((self.name, *self.modifiers))

    @property
    def types(self) -> list[str]:
        """The modifiers that are types, in order."""
        return [m for m in self.modifiers if m in SIZE or m in _WIDER]

    def allow(self, *words: str) -> None:
        """Unsupported, unless every modifier is a type or one of these."""
        odd = [m for m in self.modifiers if m not in words and m not in SIZE and m not in _WIDER]
        if odd:
            raise Unsupported(f".{odd[0]} in {self.text}")


_WIDER = ("f16", "bf16", "f16x2", "bf16x2", "e4m3x2", "e5m2x2", "tf32", "b128")


@dataclass
class Kernel:
    """An entry point: parameters at their offsets, instructions, and the place of each label among them."""

    name: str
    parameters: dict[str, Variable]
    variables: dict[str, Variable]
    body: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    all_registers: list[Register] = field(default_factory=list)
    max_threads: int = 0  # of a block; 0 where nothing is said

    @property
    def registers(self) -> int:
        return len(self.all_registers)

    @cached_property
    def parameter_bytes(self) -> int:
        return max((p.offset + p.size for p in self.parameters.values()), default=0)


@dataclass(frozen=True)
class Function:
    """A device function: the names of its parameters and results, and its body."""

    parameters: list[str]
    results: list[str]
    text: str


@dataclass
class Module:
    """What a PTX file declares."""

    kernels: dict[str, Kernel]
    variables: dict[str, Variable]


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_LINES = re.compile(r"^\s*\.(version|target|address_size|file|loc|section)\b[^\n]*$", re.M)
_HEAD = re.compile(r"\s*(?:\.(?:visible|extern|weak)\s+)*\.(entry|func)\s*(\([^)]*\)\s*)?([\w$]+)\s*(?:\(([^)]*)\))?")
_VARIABLE = re.compile(
    r"(?:\.(?:visible|extern|weak)\s+)*\.(?P<space>global|shared|local|const|param)\s*(?:\.attribute\([^)]*\)\s*)?"
    r"(?:\.align\s+(?P<align>\d+)\s*)?(?:\.v(?P<vector>[24])\s*)?\.(?P<kind>\w+)\s+(?P<name>[\w$%]+)"
    r"(?:\[(?P<count>\d*)\])?(?:\s*=\s*(?P<data>.*))?$",
    re.S,
)
_SPACE = re.compile(r"\s*")
_LABEL = re.compile(r"([A-Za-z_$%][\w$]*)\s*:(?!:)")
_STATEMENT = re.compile(r"[^;]*;")
_OPERAND = re.compile(r"\s*(\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,{}\[\]()]+)\s*(?:,|$)")


def parse(text: str) -> Module:
    """The module of a PTX text."""
    text = _LINES.sub("", _COMMENT.sub(" ", text))
    variables: dict[str, Variable] = {}
    functions: dict[str, Function] = {}
    entries, at = [], 0
    while (at := _SPACE.match(text, at).end()) < len(text):  # type: ignore[union-attr]
        head = _HEAD.match(text, at)
        begin, stop = text.find("{", at), text.find(";", at)
        if head is None or not 0 <= begin < stop:  # a variable, or a declaration
            if head is None:
                found = _variable(text[at:stop].strip())
                variables[found.name] = found
            at = stop + 1
            continue
        at = _closing(text, begin) + 1
        if head[1] == "entry":
            entries.append((head, text[head.end() : begin], text[begin + 1 : at - 1]))
        else:
            taken, given = (list(_parameters((part or "").strip("() "))) for part in (head[4], head[2]))
            functions[head[3]] = Function(taken, given, text[begin + 1 : at - 1])
    return Module({head[3]: _kernel(head, *rest, variables, functions) for head, *rest in entries}, variables)


def _kernel(head: re.Match, directives: str, text: str, variables: dict, functions: dict) -> Kernel:
    body = _Body(_parameters(head[4] or ""), variables, functions)
    body.read(text)
    bound = re.search(r"\.maxntid\s+(\d+)", directives)
    return body.kernel(head[3], int(bound[1]) if bound else 0)


def _closing(text: str, begin: int) -> int:
    depth = 0
    for found in re.compile(r"[{}]").finditer(text, begin):
        depth += 1 if found[0] == "{" else -1
        if depth == 0:
            return found.start()
    raise Unsupported("a body without an end")


def _variable(text: str) -> Variable:
    found = _VARIABLE.match(text)
    if found is None:
        raise Unsupported(text)
    each = SIZE[found["kind"]] * int(found["vector"] or 1)
    count = 1 if found["count"] is None else int(found["count"] or 0)
    data = b""
    if found["data"]:
        numbers = re.findall(r"-?\w+", found["data"])
        data = b"".join(_bits(n).to_bytes(each, "little") for n in numbers)
    return Variable(found["name"], found["space"], each * count, int(found["align"] or each), data)


def _bits(text: str) -> int:
    number = _number(text)
    assert number is not None and isinstance(number.value, int)
    return number.value & 0xFFFFFFFFFFFFFFFF if number.value >= 0 else number.value % 256


def _parameters(text: str) -> dict[str, Variable]:
    found, offset = {}, 0
    for part in filter(None, (p.strip() for p in text.split(","))):
        plain = _variable(part)
        offset = -(-offset // plain.align) * plain.align
        found[plain.name] = Variable(plain.name, "param", plain.size, plain.align, b"", offset)
        offset += plain.size
    return found


def _number(text: str) -> Immediate | None:
    if text[0] not in "-.0123456789":
        return None
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", text):
        return Immediate(int(text[2:], 16), 4)
    if re.fullmatch(r"0[dD][0-9a-fA-F]{16}", text):
        return Immediate(int(text[2:], 16), 8)
    if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)U?", text):
        return Immediate(int(text.rstrip("U"), 0))
    if re.fullmatch(r"-?\d*\.\d+", text):
        return Immediate(float(text))
    return None


class _Body:
    """Reads the statements of one body, with the names of each scope that is open."""

    def __init__(
        self, parameters: dict[str, Variable], outside: dict[str, Variable], functions: dict[str, Function]
    ) -> None:
        self.parameters, self.functions = parameters, functions
        self.prefix = ""  # of labels: which call of a function this is
        self.passed: dict[tuple[str, int], Register] = {}  # (variable of a call, offset)
        self.scopes: list[dict[str, Register]] = [{}]
        self.families: dict[str, int] = {}  # prefix: size
        self.variables = dict(outside) | parameters  # by the name that the scope gives them
        self.placed = dict(self.variables)
        self.registers: list[Register] = []
        self.body: list[Instruction] = []
        self.labels: dict[str, int] = {}

    def kernel(self, name: str, threads: int) -> Kernel:
        return Kernel(name, self.parameters, self.placed, self.body, self.labels, self.registers, threads)

    def read(self, text: str) -> None:
        at = 0
        while True:
            at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
            if at >= len(text):
                return
            if text[at] == "{":
                self.scopes.append({})
                at += 1
            elif text[at] == "}":
                self.scopes.pop()
                at += 1
            elif label := _LABEL.match(text, at):
                name = self.prefix + label[1]
                if name in self.labels:
                    raise Unsupported(f"two labels {name}")
                self.labels[name] = len(self.body)
                at = label.end()
            else:
                found = _STATEMENT.match(text, at)
                if found is None:
                    raise Unsupported(text[at : at + 60])
                self._statement(" ".join(found[0][:-1].split()))
                at = found.end()

    def _statement(self, text: str) -> None:
        if text.startswith(".reg"):
            self._declare(text)
        elif text.startswith(tuple(f".{space}" for space in SPACES)):
            found = _variable(text)
            if found.space == "param":  # of a call
                found = Variable(self.prefix + found.name, "call", found.size, found.align)
            self.placed[found.name] = found
            self.variables[found.name.removeprefix(self.prefix)] = found
        elif text.startswith("call"):
            self._call(text)
        elif text and not text.startswith(".pragma"):
            self.body.append(self._instruction(text))

    def _call(self, text: str) -> None:
        """A function's body in place of its call."""
        _, operands = text.split(None, 1)
        *results, callee, given = self._operands(operands) if "(" in operands else (*self._operands(operands), ())
        if not isinstance(callee, Special) or callee.name not in self.functions:
            raise Unsupported(text)
        function = self.functions[callee.name]
        names = dict(zip(function.parameters, given)) | dict(zip(function.results, results[0] if results else ()))
        outer = self.prefix, self.scopes, self.families, self.variables
        self.prefix = f"{callee.name}#{len(self.body)}:"
        self.scopes, self.families, self.variables = [{}], {}, {**self.variables, **names}
        self.read(function.text)
        self.labels[f"{self.prefix}return"] = len(self.body)
        self.prefix, self.scopes, self.families, self.variables = outer

    def _passed(self, place: Address, size: int) -> Register | None:
        """The register that stands for a variable of a call."""
        if not isinstance(place.base, Variable) or place.base.space != "call":
            return None
        key = (place.base.name, place.offset)
        return self.passed.setdefault(key, self._new("passed", size))

    def _declare(self, text: str) -> None:
        _, kind, names = text.split(None, 2)
        size = SIZE[kind.removeprefix(".")]
        for name in (n.strip() for n in names.split(",")):
            if family := re.fullmatch(r"([\w$%]+)<\d+>", name):
                self.families[family[1]] = size
            else:
                self.scopes[-1][name] = self._new(name, size)

    def _new(self, name: str, size: int) -> Register:
        self.registers.append(Register(len(self.registers), size, name))
        return self.registers[-1]

    def _instruction(self, text: str) -> Instruction:
        guard, whole = None, text
        if text.startswith("@"):
            word, text = text[1:].split(None, 1)
            guard = (self._register(word.removeprefix("!")), word.startswith("!"))
        opcode, _, rest = text.partition(" ")
        name, *modifiers = opcode.split(".")
        operands = self._operands(rest)
        if name == "bra":
            operands = (Special(self.prefix + operands[0].name),)
        elif name == "ret" and self.prefix:
            name, operands = "bra", (Special(f"{self.prefix}return"),)
        elif name in ("ld", "st") and "param" in modifiers:
            size = SIZE[modifiers[-1]]
            place = operands[1 if name == "ld" else 0]
            if (register := self._passed(place, size)) is not None:
                name, modifiers = "mov", [f"b{8 * size}"]
                operands = (operands[0], register) if place is operands[1] else (register, operands[1])
        return Instruction(name, tuple(modifiers), operands, guard, whole)

    def _operands(self, text: str) -> tuple:
        found, at = [], 0
        text = text.strip()
        while at < len(text):
            part = _OPERAND.match(text, at)
            if part is None:
                raise Unsupported(text)
            found.append(self._operand(part[1].strip()))
            at = part.end()
        return tuple(found)

    def _operand(self, text: str):
        if text[0] in "{(":
            return tuple(self._operand(part.strip()) for part in text[1:-1].split(",") if part.strip())
        if text[0] == "[":  # an address, or a tensor map's and coordinates
            place, _, corner = text[1:-1].partition(",")
            return (self._address(place.strip()), self._operand(corner.strip())) if corner else self._address(place)
        if text[0] == "!":
            return Not(self._register(text[1:].strip()))
        if "|" in text:
            return tuple(self._operand(part.strip()) for part in text.split("|"))
        if (known := self._known(text)) is not None:
            return known
        if (number := _number(text)) is not None:
            return number
        return None if text == "_" else self.variables.get(text) or Special(text)

    def _address(self, text: str) -> Address:
        first, *rest = (part.strip() for part in text.strip().split("+"))
        offset = sum(int(part, 0) for part in rest)
        if (number := _number(first)) is not None:
            return Address(None, int(number.value) + offset)
        return Address(self.variables.get(first) or self._register(first), offset)

    def _known(self, name: str) -> Register | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        family = name.rstrip("0123456789")
        if family != name and family in self.families:
            made = self.scopes[0][name] = self._new(name, self.families[family])
            return made
        return None

    def _register(self, name: str) -> Register:
        found = self._known(name)
        if found is None:
            raise Unsupported(f"the register {name}")
        return found
