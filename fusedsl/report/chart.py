"""An Explanation as a diagram: kernels as boxes with what they compute, arrays around them, bytes on the edges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .kernel_report import Access, KernelReport
from .units import bytes_text, seconds_text

if TYPE_CHECKING:
    from .explain import Explanation

MEMBERS = 8  # lines that a kernel's box shows of what it computes
LINE = 60  # characters of each
ARRAY, KERNEL, TEMPORARY = "array", "kernel", "temporary"


def mermaid(explanation: Explanation) -> str:
    """A Mermaid flowchart."""
    shapes = {ARRAY: ('(["', '"])'), KERNEL: ('["', '"]'), TEMPORARY: ('[("', '")]')}
    lines = ["flowchart TD"]
    for name, kind, label in _nodes(explanation):
        opening, closing = shapes[kind]
        lines.append(f"  {name}{opening}{'<br/>'.join(map(_html, label))}{closing}")
    lines += [f'  {start} -->|"{_html(label)}"| {end}' for start, end, label in _edges(explanation)]
    return "\n".join(lines)


def dot(explanation: Explanation) -> str:
    """A Graphviz digraph."""
    shapes = {ARRAY: "shape=ellipse", KERNEL: "shape=box", TEMPORARY: "shape=cylinder"}
    lines = ["digraph plan {", "  node [fontname=monospace]"]
    for name, kind, label in _nodes(explanation):
        text = "".join(f"{_quoted(line)}\\l" if kind == KERNEL else f"{_quoted(line)}\\n" for line in label)
        lines.append(f'  {name} [{shapes[kind]}, label="{text}"]')
    lines += [f'  {start} -> {end} [label="{_quoted(label)}"]' for start, end, label in _edges(explanation)]
    return "\n".join([*lines, "}"])


def _nodes(explanation: Explanation) -> Iterator[tuple[str, str, list[str]]]:
    """(name, kind, lines of its label) of every array and kernel, each array once."""
    seen = set()
    for k, kernel in enumerate(explanation.kernels):
        for access in (*kernel.reads, *kernel.writes):
            name = _name(access)
            if name not in seen:
                seen.add(name)
                yield name, TEMPORARY if access.kind == "temporary" else ARRAY, [access.array, access.type]
        yield f"kernel{k}", KERNEL, _label(k, kernel)


def _label(k: int, kernel: KernelReport) -> list[str]:
    members = [m if len(m) <= LINE else m[: LINE - 3] + "..." for m in kernel.members]
    if len(members) > MEMBERS:
        members = [*members[: MEMBERS - 1], f"and {len(members) - MEMBERS + 1} more"]
    facts = [kernel.iteration]
    if kernel.measured_seconds is not None:
        facts.append(seconds_text(kernel.measured_seconds))
    elif kernel.seconds is not None:
        facts.append(f"about {seconds_text(kernel.seconds)}")
    return [f"kernel {k}: {kernel.name}", *members, " · ".join(facts)]


def _edges(explanation: Explanation) -> Iterator[tuple[str, str, str]]:
    """(from, to, bytes) of every read and write; several reads of one array by a kernel are one edge."""
    for k, kernel in enumerate(explanation.kernels):
        read: dict[str, int] = {}
        for access in kernel.reads:
            read[_name(access)] = read.get(_name(access), 0) + access.bytes
        yield from ((name, f"kernel{k}", bytes_text(size)) for name, size in read.items())
        yield from ((f"kernel{k}", _name(access), bytes_text(access.bytes)) for access in kernel.writes)


def _name(access: Access) -> str:
    return f"{access.kind}{access.index}"


def _html(text: str) -> str:
    """Text without special meaning in Mermaid: entities for all but letters, digits and harmless signs."""
    return "".join(c if c.isalnum() or c in " .,:_-+/*()=[]·×" else f"#{ord(c)};" for c in text)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
