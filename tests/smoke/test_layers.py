"""The house: folders import downwards, no file is in a cycle that is not listed, importing fusedsl costs little."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter

import pytest
from source_tree import PACKAGE, classes, cycles, external, functions, imported, modules, parameters, tree

# From the ground up; what stands on one line is one layer.
LAYERS = (
    ("source_caret",),
    ("error_html",),
    (
        "errors",
        "config",
        "context_values",
        "hardware",
        "debug",
        "generated_code",
        "foreign_options",
        "atomic_files",
        "logs",
        "lru",
        "garbage",
        "metric_counts",
        "compile_hooks",
        "progress",
        "profiler_ranges",
    ),
    ("ir",),
    ("accuracy", "gradients"),
    ("lang",),
    ("trace", "rewrite"),
    ("fusion",),
    ("kernel_ir",),
    ("backends",),
    ("runtime",),
    ("program", "specs"),
    ("report", "interop"),
    ("arguments", "kernel_gradients", "kernel_variants", "caller_scope", "threads", "cache_sizes"),
    ("traced_calls",),
    ("labelled_calls",),
    ("aot",),
    ("inspection",),
    ("fused_method",),
    ("api", "decorator"),
    ("evaluation", "foreach_arguments"),
    ("foreach_calls", "attention_calls", "loaded_function"),
    ("load_file",),
    ("bench",),
    ("cli", "__main__"),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
GROUND = (
    "config",
    "decorator",
    "debug",
    "atomic_files",
    "compile_hooks",
    "progress",
    "profiler_ranges",
)  # what may import others of its own layer
COMPILERS = {"numba", "numba_cuda", "llvmlite"}
# These lists only shrink: what is mended is taken off them, and nothing is put on.
CYCLES: set[str] = set()
# Instructions are records that nothing parses. What matches logs and names, and what parses statements of files:
MATCHING = {"backends.cuda.compiler.linker"}
PARSING = {
    "backends.cpu.frontend",
    "backends.cpu.statements",
    "backends.cuda.compile",
    "backends.cuda.emit.source_builder",
}
MOST_SHARED_CLASS_NAMES = 0
MOST_LONG_SIGNATURES = 7  # functions of more than six parameters
MOST_FILES_OF_A_FOLDER = 20  # below backends/cuda
MOST_LINES = 300  # of a file


def layer(module: str) -> str:
    """The folder of a module, or its own name at the top."""
    return (module.split(".") + ["__init__"])[1]


@pytest.mark.parametrize("module", sorted(modules()))
def test_a_module_imports_only_downwards(module):
    here = layer(module)
    if here == "__init__":
        return
    assert here in LEVEL, f"{here} has no layer: give it one in LAYERS"
    for other in {layer(m) for m in imported(module, lazy=True)} - {here, "__init__"}:
        assert other in LEVEL, f"{other} has no layer: give it one in LAYERS"
        beside = LEVEL[here] == LEVEL[other] and here in GROUND
        assert LEVEL[other] < LEVEL[here] or beside, f"{module} imports {other}, which is above it"


def test_cycles_are_those_listed():
    found = {frozenset(m.removeprefix("fusedsl.") for m in cycle) for cycle in cycles()}
    assert found == {frozenset(cycle.split()) for cycle in CYCLES}, "take off the list what is no cycle any more"


def test_kernels_are_data_without_a_compiler():
    for module in modules():
        if layer(module) not in ("backends", "runtime", "__init__"):
            assert not external(module) & COMPILERS, f"{module} imports a compiler"


def test_instructions_are_read_as_records():
    below = [module for module in modules() if layer(module) in ("ir", "fusion", "kernel_ir", "backends")]
    matching = {module.removeprefix("fusedsl.") for module in below if "re" in external(module)}
    parsing = {m.removeprefix("fusedsl.") for m in below if "syntax_tree(" in modules()[m].read_text()}
    assert (matching, parsing) == (MATCHING, PARSING)


def test_names_of_classes():
    shared = sorted(name for name, places in classes().items() if len(places) > 1)
    assert len(shared) <= MOST_SHARED_CLASS_NAMES, shared


def test_signatures_are_short():
    long = sorted(name for name, function in functions() if len(parameters(function)) > 6)
    assert len(long) <= MOST_LONG_SIGNATURES, long


def test_folders_of_cuda_are_small():
    for folder in (PACKAGE / "backends" / "cuda").rglob("*/"):
        assert len(list(folder.glob("*.py"))) <= MOST_FILES_OF_A_FOLDER, folder


def test_files_are_short():
    lines = {name.removeprefix("fusedsl."): len(path.read_text().splitlines()) for name, path in modules().items()}
    assert not {name for name, count in lines.items() if count > MOST_LINES}, "split it by idea"


def test_no_two_test_files_have_one_name():
    """pytest collects them as modules without a package."""
    names = Counter(path.name for path in (PACKAGE.parent / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_every_file_says_its_job_first():
    for path in modules().values():
        assert not tree(path).body or ast.get_docstring(tree(path)), f"{path} has no docstring"


def test_import_is_light():
    code = "import sys, time; t = time.process_time(); import fusedsl; print(time.process_time() - t, *sys.modules)"
    seconds, *modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {
        "numba",
        "cupy",
        "torch",
        "lark",
        "fusedsl.program.call_steps",
        "fusedsl.backends.cuda.schedule",
        "fusedsl.lang",
    }
    assert not heavy & set(modules)
    assert float(seconds) < 0.5  # of this process: others may have the cores meanwhile


def test_public_names_are_there():
    import fusedsl

    for name in fusedsl.__all__:
        assert getattr(fusedsl, name) is not None
    with pytest.raises(AttributeError):
        fusedsl.nothing  # noqa: B018


def test_python_without_the_gil_is_refused():
    code = "import sys; sys._is_gil_enabled = lambda: False; import fusedsl"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ImportError" in told.stderr and "-X gil=1" in told.stderr
