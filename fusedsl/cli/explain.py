"""`explain`: the kernels of a program with bytes, registers and reasons; needs no GPU and no arrays."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from ..errors import ArgumentError
from .options import add_values, check_exclusive, values_of

FORMATS = ("text", "json", "mermaid", "dot")


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `explain`."""
    parser.add_argument("text", metavar="TEXT", help="the program; - reads it from standard input")
    add_values(parser)
    parser.add_argument("--cc", help="compute capability of a GPU to ask about: 80, 90, 100; it need not be here")
    parser.add_argument("--device", choices=("cuda", "cpu"), help="default: what this machine has")
    parser.add_argument("--no-compile", action="store_true", help="predicted registers only")
    parser.add_argument("--source", action="store_true", help="print the generated Python instead")
    parser.add_argument("--format", choices=FORMATS, help="text (default), data, or a diagram")
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    parser.add_argument("--report", metavar="FILE", help="write a page: one HTML file, see Kernel.report")
    parser.add_argument("--measure", action="store_true", help="run the kernels here, and say how long they take")


def run(chosen: argparse.Namespace) -> int:
    """Print the explanation, as text, data or a diagram, or the source."""
    from ..api import kernel
    from ..report.terminal import print_explanation
    from ..runtime.driver import cuda_available

    compiled = kernel(sys.stdin.read() if chosen.text == "-" else chosen.text)
    values = values_of(chosen)
    device = chosen.device or (None if chosen.cc is not None or cuda_available() else "cpu")
    if chosen.source:
        check_exclusive(chosen, "--source", ("report", "format", "measure", "no_compile"))
        print(compiled.source(*_ordered(compiled, values), device=device, cc=chosen.cc))
        return 0
    asked = {"device": device, "cc": chosen.cc, "compile": not chosen.no_compile, "measure": chosen.measure}
    if chosen.report is not None:
        check_exclusive(chosen, "--report", ("format",))
        compiled.report(chosen.report, *_ordered(compiled, values), **asked)
        return 0
    explanation = compiled.explain(*_ordered(compiled, values), **asked)
    match chosen.format:
        case "json":
            print(json.dumps(explanation.to_dict(), indent=1))
        case "mermaid":
            print(explanation.mermaid())
        case "dot":
            print(explanation.dot())
        case _:
            print_explanation(explanation)
    return 0


def _ordered(compiled: Any, values: dict[str, Any]) -> list[Any]:
    """The values in the kernel's parameter order; ArgumentError for a missing or unknown name."""
    missing = [name for name in compiled.params if name not in values]
    if missing:
        help = " ".join(["--shape", *(f"{name}=4096,4096:float32" for name in missing)])
        raise ArgumentError(f"no shape for {', '.join(missing)}", "argument.missing", help=f"add {help}")
    return compiled._bind((), values)
