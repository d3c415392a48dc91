"""The replay check: has a change of the sources changed any kernel?

python -m replay record before.json          # on the old tree, in tests/
python -m replay check before.json           # on the new one: which kernels changed, and a diff of the first
python -m replay record --text before.json   # machine code of a sample, where names in generated files change
python -m replay check --text before.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from replay.generated import changed, difference, is_fault, machine_code, sources, without_comments


def main() -> int:
    """Record or check; 1 if a kernel changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("record", "check"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--text", action="store_true", help="compare the machine code of a sample")
    given = parser.parse_args()
    found = machine_code() if given.text else sources()
    faults = [f"{name}: {text}" for name, text in found.items() if is_fault(text)]
    if faults:
        print("\n".join(faults[:5]), f"{len(faults)} cases raise", sep="\n")
        return 1
    if given.step == "record":
        given.file.write_text(json.dumps(found, indent=0))
        print(f"{len(found)} kernels recorded")
        return 0
    before = json.loads(given.file.read_text())
    everything = changed(before, found)
    if not given.text:
        before = {name: without_comments(text) for name, text in before.items()}
        found = {name: without_comments(text) for name, text in found.items()}
    different = changed(before, found)
    for name in different:
        print(f"changed: {name}")
    if different and not given.text:
        print(difference(different[0], before, found))
    if len(everything) > len(different):
        print(f"{len(everything) - len(different)} have other comments alone")
    print(f"{len(different)} of {len(before)} changed")
    return int(bool(different))


if __name__ == "__main__":
    raise SystemExit(main())
