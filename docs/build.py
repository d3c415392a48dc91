"""Builds the documentation site: python docs/build.py [FOLDER]. A warning is an error; FOLDER is docs/_build."""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent


def main(folder: Path) -> int:
    """The exit code of Sphinx, then of the check of all links."""
    try:
        from sphinx.cmd.build import main as sphinx
    except ImportError:
        print("the site needs Sphinx: pip install '.[docs]'", file=sys.stderr)
        return 2
    failed = sphinx(["-q", "-E", "-n", "-W", "--keep-going", "-b", "html", str(DOCS), str(folder)])
    if failed:
        return failed
    sys.path.insert(0, str(DOCS / "extensions"))
    from check_site import faults

    found = faults(folder)
    print("\n".join(found) or f"{folder}/index.html")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "_build"))
