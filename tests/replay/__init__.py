"""The replay check: every kernel of a corpus is generated again, and compared with what it was."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT / folder) for folder in ("tests", "tests/attention", "benchmarks", "examples")]
