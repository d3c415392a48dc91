"""Kernels compiled ahead of time: one file with plans and machine code, for machines without Numba or a compiler."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .config import Options
from .errors import ArgumentError
from .files import named_file, write_whole
from .program import Program
from .report.explain import case_of
from .runtime.compile import Built, facts_of, recorded, ship
from .schedule.plan import plan_from_json, plan_to_json

FORMAT = 1
MANIFEST = "manifest.json"


def save(path: Any, made_from: tuple, program: Program, values: Sequence[Any], targets: Sequence[Any]) -> None:
    """Write what calls with these arguments (or specs) need on each target: compute capabilities, or "cpu"."""
    file = named_file(path)
    plans: dict[str, None] = {}
    kernels: dict[str, Built] = {}
    for target in targets:
        device, cc = ("cpu", None) if target == "cpu" else (None, target)
        with recorded() as built:
            case = case_of(program, values, device, cc, alone=True)
            for members in case.launches:
                if not any(bound.empty for _, bound in members):
                    case.built(members)
        plans[json.dumps(plan_to_json(case.plan), sort_keys=True)] = None
        kernels.update(built)
    text, params, constants = made_from
    manifest = {
        "format": FORMAT,
        "fusedsl": _version(),
        "kernel": {"text": text, "params": params, "constants": dict(constants or {})},
        "names": list(program.names),
        "options": asdict(program.options),
        "plans": [json.loads(plan) for plan in plans],
        "kernels": {key: facts_of(built) for key, built in kernels.items()},
    }
    write_whole(file, _packed(manifest, {key: built.code for key, built in kernels.items()}))


def _packed(manifest: Mapping[str, Any], code: Mapping[str, bytes]) -> bytes:
    """The archive."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(MANIFEST, json.dumps(manifest, indent=1))
        for key, binary in code.items():
            packed.writestr(f"{key}.bin", binary)
    return made.getvalue()


def load(path: Any) -> tuple[tuple, Options, Sequence[str], list]:
    """(text, params, constants), the options, the parameters' names and the plans of a file; its code is made known.

    Raises ArgumentError for a file that is none, is damaged, or is of another version; OSError where it cannot be read.
    """
    path = named_file(path)
    try:
        with zipfile.ZipFile(path) as packed:
            told = json.loads(packed.read(MANIFEST))
            code = {key: packed.read(f"{key}.bin") for key in told["kernels"]}
        version, kernel, options = (told["format"], told["fusedsl"]), told["kernel"], told["options"]
    except (zipfile.BadZipFile, zlib.error, KeyError, TypeError, ValueError, EOFError, NotImplementedError) as fault:
        raise _misfit(path, f"is no saved kernel, or damaged ({type(fault).__name__})") from None
    if version != (FORMAT, _version()):
        raise _misfit(path, f"was saved by fusedsl {version[1]}, and this is {_version()}")
    plans = [plan_from_json(plan) for plan in told["plans"]]
    made_from = (kernel["text"], kernel["params"], kernel["constants"])
    for key, facts in told["kernels"].items():
        ship(key, facts, code[key])
    return made_from, Options(**options), told["names"], plans


def _misfit(path: Path, what: str) -> ArgumentError:
    return ArgumentError(f"{path} {what}", "argument.file", help="save the kernel anew with Kernel.save")


def _version() -> str:
    from . import __version__

    return __version__
