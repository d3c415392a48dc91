"""The command line: python -m fusedsl demo | explain | reference | doctor | cache | bench."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from .errors import FusedslError

COMMANDS = {
    "demo": "fuse real workloads, check them against float64, time them beside unfused NumPy or CuPy",
    "explain": "show what a program launches, and why; needs no GPU and no arrays",
    "reference": "say what a function does, or all of them: signatures, formulas, dtypes, examples",
    "doctor": "say what is installed, what works, and how to mend what does not",
    "cache": "show or clear the folder of compiled kernels",
    "bench": "time fusedsl beside the libraries that are installed; write JSON and HTML; compare two runs",
}


def parser(wanted: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of all commands; each is a module of fusedsl.cli with `add(parser)` and `run(arguments)`.

    Only the modules in `wanted` are imported, so that doctor runs even if the dependencies of the others are broken.
    """
    name = (
        "fusedsl" if Path(sys.argv[0]).stem == "fusedsl" else "python -m fusedsl"
    )  # the console script, or the module
    commands_parser = argparse.ArgumentParser(prog=name, description="Array math compiled to fused kernels.")
    commands_parser.add_argument("--version", action="version", version=_version())
    commands = commands_parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, about in COMMANDS.items():
        command = commands.add_parser(name, help=about, description=about)
        if name in wanted:
            module = import_module(f"fusedsl.cli.{name}")
            module.add(command)
            command.set_defaults(run=module.run)
    return commands_parser


def _version() -> str:
    from . import __version__

    return f"fusedsl {__version__}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Exit codes: 0, 1 if doctor, demo or bench found something wrong, 2 for a usage error."""
    arguments = (sys.argv[1:] if arguments is None else list(arguments)) or ["--help"]
    chosen = parser(arguments).parse_args(arguments)
    try:
        return chosen.run(chosen)
    except FusedslError as fault:
        print(fault, file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader has closed the pipe, as `head` does
        sys.stderr.close()
        return 0


if __name__ == "__main__":
    sys.exit(main())
