"""Names in generated files: an argument may have any name, also one that the files have for themselves."""

import re
from pathlib import Path

import numpy as np
import pytest
from ptx import emulated_gpu

import fusedsl as fd
from fusedsl.backends import cuda
from fusedsl.kernel_ir.build.body_builder import GENERATED
from fusedsl.runtime.array_copies import to_host

NUMBERED = re.compile(r'f"([a-z]{2,})[a-z0-9]*(?:_[a-z0-9]+)*_\{[^"]*"')  # a word, and then what is put in
TEXTS = {
    "a map": "{0} * 2 + {1}",
    "rows": "softmax({0} + {1}, -1)",
    "columns": "sum({0} * {1}, 0)",
    "a transpose": "{0} + {1}.mT",
    "positions": "{0} + {1} * arange(96)",
}


def test_words_that_generated_names_begin_with_are_known():
    folder = Path(cuda.__file__).parent
    files = [path for path in folder.rglob("*.py") if "compiler" not in path.parts]
    words = {word for path in files for word in NUMBERED.findall(path.read_text())}
    assert len(words) > 40 and words <= GENERATED, words - GENERATED


@pytest.mark.parametrize("names", ["store phase", "load_store row", "place widen"])
@pytest.mark.parametrize("text", TEXTS)
def test_arguments_may_be_called_what_generated_files_call_theirs(text, names):
    x, y = (np.random.default_rng(k).standard_normal((96, 96)).astype(np.float32) for k in (1, 2))
    kernel = fd.kernel(TEXTS[text].format(*names.split()), fallback=False)
    with emulated_gpu() as gpu:
        found = to_host(kernel(gpu.asarray(x), gpu.asarray(y)))
    np.testing.assert_allclose(found, kernel(x, y), rtol=1e-5, atol=1e-5)


def test_scatters_may_have_such_arguments():
    specs = {"merge": fd.spec((90000,), "int32"), "panel": fd.spec((90000,), "int32")}
    text = "scatter_max(400000, merge, panel), scatter_min(400000, merge, panel)"
    assert fd.kernel(text).resources(**specs, cc=90)
