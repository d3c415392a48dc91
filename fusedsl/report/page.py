"""An Explanation as one HTML file: a picture of the bytes, a card per kernel, and the sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from .kernel_report import KernelReport
from .units import bytes_text, plural, seconds_text

if TYPE_CHECKING:
    from .explain import Explanation

WIDTH = 960  # of the picture, in its own units
BAR, GAP = 46, 24  # height of a bar, and the gap between two
LETTER = 8.0  # width of a letter

STYLE = """
:root { --ink: #16202c; --faint: #5b6b7d; --paper: #ffffff; --card: #f4f6f8; --old: #c9d2dc; --new: #1f9d6b; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8edf2; --faint: #93a3b5; --paper: #10161d; --card: #1a222c; --old: #3a4756; --new: #2bb981; }
}
body { background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 62rem; padding: 0 1rem; }
pre, code, td.name { font: 14px/1.5 ui-monospace, monospace; }
pre { background: var(--card); border-radius: 8px; overflow-x: auto; padding: 0.8rem 1rem; }
h1 { font-size: 1.5rem; margin: 1.5rem 0 0.3rem; } h2 { font-size: 1.1rem; margin: 0 0 0.6rem; }
section { background: var(--card); border-radius: 8px; margin: 1rem 0; padding: 1rem 1.2rem; }
section pre { background: var(--paper); } .faint { color: var(--faint); } svg { height: auto; width: 100%; }
td { padding: 0 1.2rem 0 0; vertical-align: top; } summary { color: var(--faint); cursor: pointer; }
text { fill: var(--ink); font: 13px ui-monospace, monospace; } .old { fill: var(--old); } .new { fill: var(--new); }
text.inside { fill: #ffffff; } text.unit { fill: var(--faint); }
"""


def page(explanation: Explanation, sources: Sequence[tuple[str, str]]) -> str:
    """The page; `sources` are the generated files by kernel name."""
    kernels = plural(len(explanation.kernels), "kernel")
    title = f"{kernels} instead of {explanation.before.kernels} · {bytes_text(explanation.bytes)}"
    title += f" instead of {bytes_text(explanation.before.bytes)}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="faint">{escape(_times(explanation))}</p>',
        _text(explanation),
        picture(explanation),
    ]
    parts += [_card(k, kernel) for k, kernel in enumerate(explanation.kernels)]
    lists = (
        ("Not merged", [r.reason for r in explanation.refused]),
        ("Notes", explanation.notes),
        ("In float64, though no input is", [w.operation for w in explanation.widened]),
    )
    parts += [_list(name, lines) for name, lines in lists if lines]
    parts += [
        f"<details><summary>generated source of {escape(name)}</summary><pre>{escape(text)}</pre></details>"
        for name, text in sources
    ]
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _times(explanation: Explanation) -> str:
    parts = [explanation.target]
    if explanation.measured_seconds is not None:
        parts.append(f"{seconds_text(explanation.measured_seconds)} measured")
    if explanation.seconds is not None and explanation.before.seconds is not None:
        by_model = f"{seconds_text(explanation.seconds)} instead of {seconds_text(explanation.before.seconds)}"
        parts.append(f"about {by_model}, by the time model")
    return " · ".join(parts)


def _text(explanation: Explanation) -> str:
    lines = [
        *explanation.program,
        "",
        *(f"{'with' if not k else '    '}  {a}" for k, a in enumerate(explanation.arguments)),
    ]
    return f"<pre>{escape(chr(10).join(lines).rstrip())}</pre>"


def _list(name: str, lines: Sequence[str]) -> str:
    return f"<section><h2>{name}</h2><ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul></section>"


def _card(k: int, kernel: KernelReport) -> str:
    """A kernel: formulas, reads and writes, schedule, and the compiler's figures."""
    arrays = [("reads", a) for a in kernel.reads] + [("writes", a) for a in kernel.writes]
    rows = [
        f'<tr><td>{verb}</td><td class="name">{escape(a.array)}</td><td class="name">{escape(a.type)}</td>'
        f"<td>{bytes_text(a.bytes)}</td></tr>"
        for verb, a in arrays
    ]
    facts = [kernel.schedule]
    if (f := kernel.figures) is not None:
        spilled = f"{f.spill_bytes} bytes spilled" if f.spill_bytes else "no spills"
        facts.append(f"{f.registers} registers (at most {kernel.predicted_registers} predicted), {spilled}, ")
        facts[-1] += f"{f.occupancy:.0%} of the threads that fit, limited by {f.limiter}"
    time = kernel.measured_seconds or kernel.seconds
    if time is not None:
        facts.append(f"{'measured' if kernel.measured_seconds else 'about'} {seconds_text(time)}")
    return (
        f"<section><h2>kernel {k}: <code>{escape(kernel.name)}</code></h2>"
        f"<pre>{escape(chr(10).join(kernel.members))}</pre>"
        f"<table>{''.join(rows)}</table>"
        f"<p>{'<br>'.join(escape(fact) for fact in (kernel.iteration, *facts))}</p></section>"
    )


def picture(explanation: Explanation) -> str:
    """Two bars as long as the bytes that move: unfused operations, and our kernels."""
    most = max(explanation.before.bytes, explanation.bytes, 1)
    operations = explanation.before.operations
    before = [(name, explanation.before.bytes / max(len(operations), 1)) for name in operations]
    after = [(kernel.name, kernel.bytes) for kernel in explanation.kernels]
    lines = [*_bar(before, most, 0, "old", f"unfused: {bytes_text(explanation.before.bytes)}")]
    lines += _bar(after, most, BAR + GAP + 20, "new", f"fused: {bytes_text(explanation.bytes)}")
    height = 2 * (BAR + 20) + GAP
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="bytes moved">{"".join(lines)}</svg>'


def _bar(parts: Sequence[tuple[str, float]], most: float, top: int, kind: str, label: str) -> Iterator[str]:
    """A bar of parts as wide as their bytes, its label above it."""
    yield f'<text class="unit" x="0" y="{top + 13}">{escape(label)}</text>'
    left = 0.0
    for name, size in parts:
        width = max(WIDTH * size / most, 2.0)
        title = escape(f"{name}: {bytes_text(size)}")
        yield f'<g><title>{title}</title><rect class="{kind}" rx="3" x="{left:.1f}" y="{top + 20}" '
        yield f'width="{max(width - 2, 1):.1f}" height="{BAR}"/>'
        if LETTER * len(name) < width - 8:
            inside = ' class="inside"' if kind == "new" else ""
            yield f'<text{inside} x="{left + 6:.1f}" y="{top + 20 + BAR / 2 + 4:.0f}">{escape(name)}</text>'
        yield "</g>"
        left += width
