"""Which loops LLVM is to interleave: innermost ones whose elements are long chains of float operations.

A function of one element is a chain of some hundred cycles. LLVM relies on the core to overlap iterations, but its
schedulers hold about one iteration of such a loop. Iterations that alternate in the code fill them with instructions
that do not wait for each other: exp, log and tanh in turn take 0.4 of the time (float64, Zen 5).
"""

from __future__ import annotations

from llvmlite import ir

FEWEST = 12  # float operations of an iteration: LLVM interleaves shorter ones itself
LONG, LONGEST = 320, 1000  # vector instructions of an iteration: two of longer ones alternate; the longest spill alone
COUNTS = ((5.0, 8), (2.0, 4), (0.0, 2))  # where it waits for so many times as long as it issues, so many alternate
ISSUED = 3  # vector instructions a cycle
LATENCY = {"fdiv": 13, "fmul": 4, "fadd": 3, "fsub": 3, "load": 0, "sqrt": 18, "fma": 4, "fabs": 1, "copysign": 1}

Edges = dict[ir.Block, list[ir.Block]]


class LoopIdentity(ir.MDValue):
    """The metadata of one loop: its first operand is itself, by which LLVM tells loops apart."""

    def descr(self, buf):
        buf += (f"distinct !{{ {', '.join(x.get_reference() for x in (self, *self.operands))} }}", "\n")


def interleave(module: ir.Module) -> None:
    """Mark the innermost loops of a lowered module that gain from it."""
    for function in module.functions:
        for latch, blocks in innermost(function):
            if (count := iterations([i for block in blocks for i in block.instructions])) > 1:
                operand = module.add_metadata(["llvm.loop.interleave.count", ir.IntType(32)(count)])
                identity = LoopIdentity(module, [operand], name=str(len(module.metadata)))
                latch.terminator.set_metadata("llvm.loop", identity)


def iterations(instructions: list[ir.Instruction]) -> int:
    """How many iterations are to alternate in a loop of these instructions."""
    computed = [i for i in instructions if i.opname not in ("load", "alloca") and width(i.type)]
    if sum(not isinstance(i.type, ir.IntType) for i in computed) < FEWEST:
        return 1
    lane = max([32, *(width(moved(i)) for i in instructions if "alias.scope" in i.metadata)])
    size = sum(max(1.0, width(i.type) / lane) for i in computed)
    if size > LONG:
        return 2 if size <= LONGEST else 1
    waits = critical_path(instructions) / (size / ISSUED)
    return next(count for least, count in COUNTS if waits >= least)


def critical_path(instructions: list[ir.Instruction]) -> int:
    """Cycles of the longest chain of instructions that need one another, on common cores."""
    done: dict[int, int] = {}
    for each in instructions:
        done[id(each)] = latency(each) + max((done.get(id(x), 0) for x in each.operands), default=0)
    return max(done.values())


def latency(instruction: ir.Instruction) -> int:
    if instruction.opname != "call":
        return LATENCY.get(instruction.opname, 1)
    name = instruction.callee.name.removeprefix("llvm.").partition(".")[0]
    return LATENCY.get(name, 4)


def width(kind: ir.Type) -> int:
    """Bits of a number; 0 of what is none."""
    if isinstance(kind, ir.IntType):
        return kind.width
    return {ir.FloatType: 32, ir.DoubleType: 64}.get(type(kind), 0)


def moved(instruction: ir.Instruction) -> ir.Type:
    """What a load or a store moves: of an element of an array, which names its scope."""
    return instruction.operands[0].type if instruction.opname == "store" else instruction.type


def innermost(function: ir.Function) -> list[tuple[ir.Block, list[ir.Block]]]:
    """The loops that hold no other: the block that jumps back, and all their blocks."""
    following = {block: successors(block) for block in function.blocks}
    jumps = jumps_back(following)
    headers = [header for _, header in jumps]
    loops = [(latch, header, loop_blocks(following, header, latch)) for latch, header in jumps]
    return [(latch, own) for latch, header, own in loops if [b for b in own if b in headers] == [header]]


def successors(block: ir.Block) -> list[ir.Block]:
    return [to for to in block.terminator.operands if isinstance(to, ir.Block)] if block.terminator else []


def jumps_back(following: Edges) -> list[tuple[ir.Block, ir.Block]]:
    """The edges to a block that is on the way to them, from the first block on."""
    first = next(iter(following), None)
    if first is None:
        return []
    found, seen, path = [], {first}, [(first, iter(following[first]))]
    while path:
        block, edges = path[-1]
        to = next(edges, None)
        if to is None:
            path.pop()
        elif to not in seen:
            seen.add(to)
            path.append((to, iter(following[to])))
        elif any(to is on for on, _ in path):
            found.append((block, to))
    return found


def loop_blocks(following: Edges, header: ir.Block, latch: ir.Block) -> list[ir.Block]:
    """The header, and the blocks from which the latch is reached without it."""
    found = {header, latch}
    while more := {block for block, to in following.items() if block not in found and found - {header} & set(to)}:
        found |= more
    return [block for block in following if block in found]
