"""Interleave counts for LLVM: innermost loops whose iterations are long dependency chains of float operations.

A function of one element is a chain of some hundred cycles. LLVM relies on out-of-order execution to overlap
iterations, but the schedulers of a core hold about one iteration of such a loop. Interleaved iterations fill them with
independent instructions.
measured: tanh(log(exp(x))) takes 0.4 of the time (float64, Zen 5).

So does a chain of gathers, as in a binary search: each reads where the one before says.
measured: searches of 2^18 float32 in a table of 1,000: 2.6 ms; 1.7 of two iterations at once, 1.05 of four, 1.02 of
eight (Zen 5).

Loops around others are not unrolled at run time: LLVM would compile each loop in them twice more, as for a remainder.
measured: kernels of four products compile in 0.75 of the time, and take as long.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

MIN_FLOAT_OPS = 12  # float operations of an iteration; LLVM interleaves shorter loops itself
LONG_BODY, LONGEST_BODY = (
    320,
    1000,
)  # vector instructions of an iteration: longer ones interleave twice, the longest not at all (they spill)
INTERLEAVE_COUNTS = ((5.0, 8), (2.0, 4), (0.0, 2))  # (least ratio of latency to issue cycles, interleave count)
MOST_ACCESSES = 64  # loads and stores of interleaved iterations: with more, memory is what a loop waits for
GATHER_CHAIN, CHAINED_COUNT = 3, 4  # gathers that depend on each other, from which on loops interleave so many times
COUNTING = 2.0  # instructions of an iteration that the loop itself takes beside those of its counter
ISSUE_WIDTH = 3  # vector instructions per cycle
LATENCY = {"fdiv": 13, "fmul": 4, "fadd": 3, "fsub": 3, "load": 0, "sqrt": 18, "fma": 4, "fabs": 1, "copysign": 1}

Edges = dict[ir.Block, list[ir.Block]]


class LoopIdentity(ir.MDValue):
    """Loop metadata (llvm.loop): its first operand is itself, so that it is distinct."""

    def descr(self, buf):
        buf += (f"distinct !{{ {', '.join(x.get_reference() for x in (self, *self.operands))} }}", "\n")


def interleave(module: ir.Module) -> None:
    """Set llvm.loop.interleave.count on the innermost loops of a module that gain from it, and forbid that the others
    are unrolled for counts that are not constants."""
    for function in module.functions:
        within = innermost(function)
        for latch, blocks in within:
            if (count := interleave_count([i for block in blocks for i in block.instructions])) > 1:
                _annotate(module, latch, ["llvm.loop.interleave.count", ir.IntType(32)(count)])
        for latch in outer_latches(function, [latch for latch, _ in within]):
            _annotate(module, latch, ["llvm.loop.unroll.runtime.disable"])


def _annotate(module: ir.Module, latch: ir.Block, words: list) -> None:
    identity = LoopIdentity(module, [module.add_metadata(words)], name=str(len(module.metadata)))
    latch.terminator.set_metadata("llvm.loop", identity)


def interleave_count(instructions: list[ir.Instruction]) -> int:
    """The interleave count for a loop of these instructions."""
    if gather_chain(instructions) >= GATHER_CHAIN:
        return CHAINED_COUNT
    accesses = [i for i in instructions if "alias.scope" in i.metadata]
    computed = [i for i in instructions if i.opname not in ("load", "alloca") and width(i.type)]
    if sum(not isinstance(i.type, ir.IntType) for i in computed) < MIN_FLOAT_OPS:
        return 1
    lane = max([32, *(width(accessed_type(i)) for i in accesses)])
    size = COUNTING + sum(max(1.0, width(i.type) / lane) for i in computed)
    if size > LONG_BODY:
        return 2 if size <= LONGEST_BODY else 1
    waits = critical_path(instructions) / (size / ISSUE_WIDTH)
    count = next(count for least, count in INTERLEAVE_COUNTS if waits >= least)
    while count > 2 and count * len(accesses) > MOST_ACCESSES:
        count //= 2
    return count


def critical_path(instructions: list[ir.Instruction]) -> int:
    """Cycles of the longest dependency chain, on common cores."""
    ready: dict[int, int] = {}
    for each in instructions:
        ready[id(each)] = latency(each) + max((ready.get(id(x), 0) for x in each.operands), default=0)
    return max(ready.values())


def gather_chain(instructions: list[ir.Instruction]) -> int:
    """The most loads at computed addresses each of which depends on the one before."""
    chain: dict[int, int] = {}
    for each in instructions:
        before = max((chain.get(id(x), 0) for x in each.operands), default=0)
        chain[id(each)] = before + (each.opname == "load" and is_computed(each.operands[0]))
    return max(chain.values(), default=0)


def is_computed(address: ir.Value) -> bool:
    """Whether an address was an integer; those of arrays are pointers throughout."""
    while getattr(address, "opname", "") in ("bitcast", "getelementptr", "select"):
        address = next(x for x in address.operands if isinstance(x.type, ir.PointerType))
    return getattr(address, "opname", "") == "inttoptr"


def latency(instruction: ir.Instruction) -> int:
    if instruction.opname != "call":
        return LATENCY.get(instruction.opname, 1)
    name = instruction.callee.name.removeprefix("llvm.").partition(".")[0]
    return LATENCY.get(name, 4)


def width(kind: ir.Type) -> int:
    """Bits of a scalar type; 0 for other types."""
    if isinstance(kind, ir.IntType):
        return kind.width
    return {ir.FloatType: 32, ir.DoubleType: 64}.get(type(kind), 0)


def accessed_type(instruction: ir.Instruction) -> ir.Type:
    """The type that a load or a store accesses."""
    return instruction.operands[0].type if instruction.opname == "store" else instruction.type


def innermost(function: ir.Function) -> list[tuple[ir.Block, list[ir.Block]]]:
    """Innermost loops: (latch, all blocks)."""
    following = {block: successors(block) for block in function.blocks}
    preceding: Edges = {block: [] for block in following}
    for block, targets in following.items():
        for target in targets:
            preceding[target].append(block)
    edges = back_edges(following)
    headers = {header for _, header in edges}
    loops = [(latch, header, loop_blocks(preceding, header, latch)) for latch, header in edges]
    return [(latch, [b for b in following if b in own]) for latch, header, own in loops if own & headers == {header}]


def outer_latches(function: ir.Function, within: Sequence[ir.Block]) -> list[ir.Block]:
    """The latches of loops that contain others; `within` are those of the innermost."""
    following = {block: successors(block) for block in function.blocks}
    return [latch for latch, _ in back_edges(following) if latch not in within]


def successors(block: ir.Block) -> list[ir.Block]:
    return [to for to in block.terminator.operands if isinstance(to, ir.Block)] if block.terminator else []


def back_edges(following: Edges) -> list[tuple[ir.Block, ir.Block]]:
    """Back edges of a depth-first search from the entry block."""
    first = next(iter(following), None)
    if first is None:
        return []
    edges, seen, path = [], {first}, {first: iter(following[first])}
    while path:
        block = next(reversed(path))
        target = next(path[block], None)
        if target is None:
            del path[block]
        elif target in path:
            edges.append((block, target))
        elif target not in seen:
            seen.add(target)
            path[target] = iter(following[target])
    return edges


def loop_blocks(preceding: Edges, header: ir.Block, latch: ir.Block) -> set[ir.Block]:
    """The natural loop: the header, and the blocks from which the latch is reached without it."""
    blocks, left = {header, latch}, [latch]
    while left:
        block = left.pop()
        new = [b for b in preceding[block] if b not in blocks] if block is not header else []
        blocks.update(new)
        left += new
    return blocks
