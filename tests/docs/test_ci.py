"""The script of .ci fails when any command of it does: run with stand-ins for the commands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ("pip install build", "-m build", "check_package", "-m twine", "pip install --no-deps", "fusedsl --version")
COMMANDS = (
    "pip install .",
    "-m fusedsl demo",
    "-c import",
    "pip install .[test]",
    "-m pytest",
    "docs/build.py",
    "ruff check",
    "mypy",
)
STAND_IN = """#!/bin/sh
if [ "$1 $2" = "-m venv" ]; then mkdir -p "$3/bin"; : > "$3/bin/activate"; fi
case "$(basename "$0") $*" in *"$FAULT"*) [ -n "$FAULT" ] && exit 1;; esac
exit 0
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a script of bash")
@pytest.mark.parametrize("fault", ["", *PACKAGE, *COMMANDS, "ruff format", "pip install ruff"])
def test_the_script_fails_when_a_command_does(fault, tmp_path):
    project, commands = tmp_path / "project", tmp_path / "commands"
    (project / ".ci").mkdir(parents=True)
    (project / ".ci" / "run").write_bytes((ROOT / ".ci" / "run").read_bytes())
    commands.mkdir()
    for name in ("python3", "python", "pip", "ruff", "mypy", "fusedsl"):
        (commands / name).write_text(STAND_IN)
        (commands / name).chmod(0o755)
    environment = os.environ | {"FAULT": fault, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("PYTHON", None)
    ran = subprocess.run(["bash", str(project / ".ci" / "run")], capture_output=True, text=True, env=environment)
    assert (ran.returncode == 0) is (not fault), ran.stdout + ran.stderr
