"""What a type checker knows of the package: signatures of fused functions, options by name, results of methods."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fusedsl
from fusedsl.config import OPTION_NAMES, OptionChanges

ROOT = Path(fusedsl.__file__).parent.parent

CLIENT = '''
import numpy as np
import numpy.typing as npt
import fusedsl as fd

Floats = npt.NDArray[np.float32]

@fd.fuse
def gelu(x: Floats, scale: float = 1.0) -> Floats:
    return x * np.float32(scale)

@fd.fuse(max_kernels=1, fastmath=True)
def two(x: Floats) -> tuple[Floats, Floats]:
    return x, x

class Layer:
    @fd.fuse
    def forward(self, x: Floats) -> Floats:
        return x

x = np.ones(3, np.float32)
reveal_type(gelu(x, scale=2.0))
reveal_type(two(x)[0])
reveal_type(Layer().forward(x))
reveal_type(gelu.explain(x, 2.0))
gelu.explain(fd.spec((3,)), 2.0)
Layer.forward(Layer(), x)
Layer().forward(3)            # error: a wrong type
kernel = fd.kernel("x * 2", fastmath=True, limits={"text": 100})
reveal_type(kernel)
reveal_type(kernel.params)
reveal_type(kernel.explain(x))
reveal_type(kernel.bind(x))
reveal_type(fd.get_num_threads())
with fd.options(rounding="op", deterministic="batch"):
    pass
gelu(x, 2.0, 3.0)             # error: too many arguments
gelu(x, sacle=2.0)            # error: an unknown keyword
gelu("text")                  # error: a wrong type
fd.kernel("x", fastmth=True)  # error: an unknown option
fd.kernel("x", rounding="up") # error: a wrong choice
fd.fuse(3)                    # error: no function
fd.options(max_kernel=1)      # error: an unknown option
reveal_type(kernel.grad('x'))
reveal_type(kernel.value_and_grad())
'''  # fmt: skip


def test_the_package_ships_its_types():
    assert (Path(fusedsl.__file__).parent / "py.typed").exists()
    assert '"py.typed"' in (ROOT / "pyproject.toml").read_text()
    assert set(OptionChanges.__annotations__) == set(OPTION_NAMES)


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_a_clients_mistakes_are_found_and_its_calls_have_types(tmp_path):
    (tmp_path / "client.py").write_text(CLIENT)
    (tmp_path / "script.py").write_text(STRICT)
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = True\n[mypy-numba.*,llvmlite.*,lark.*,torch.*,cupy.*]\n"
                                       "ignore_missing_imports = True\nfollow_imports = skip\n")  # fmt: skip
    environment = os.environ | {"MYPYPATH": str(ROOT), "MYPY_CACHE_DIR": str(tmp_path / "cache")}
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        "mypy.ini",
        "--follow-imports=silent",
        "client.py",
        "script.py",
    ]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    lines = CLIENT.splitlines()
    told = [line for line in ran.stdout.splitlines() if line.startswith("client.py:")]
    assert "script.py:" not in ran.stdout, ran.stdout
    errors = {int(line.split(":")[1]) for line in told if ": error:" in line}
    assert errors == {k for k, line in enumerate(lines, 1) if "# error:" in line}, ran.stdout + ran.stderr
    revealed = [line.split('"')[1] for line in told if "Revealed type" in line]
    words = ["ndarray"] * 3 + ["Explanation", "Kernel", "tuple[", "Explanation", "BoundCall", "int", "Kernel", "Kernel"]
    assert len(revealed) == len(words) and all(word in kind for word, kind in zip(words, revealed)), revealed


STRICT = '''
import numpy as np
import numpy.typing as npt
import fusedsl as fd

Floats = npt.NDArray[np.float32]

@fd.fuse(max_kernels=1)
def affine(x: Floats, beta: float = 1.0) -> Floats:
    return x * np.float32(beta) + np.float32(1)

class Layer:
    @fd.fuse
    def forward(self, x: Floats) -> Floats:
        return x

x = np.ones(3, np.float32)
y: Floats = affine(Layer().forward(x), beta=2.0)
print(affine.explain(fd.spec((3,)), 2.0), affine.source(x, 2.0), affine.__name__)
kernel = fd.kernel("x * 2", fastmath=True, limits={"text": 100})
print(kernel.params, kernel.options.fastmath, kernel.explain(x).to_dict(), kernel.resources(x, cc=90))
again = kernel.bind(x)
print(kernel(x), again(), again.result, kernel.graph(x).then(kernel, x)())
print(fd.evaluate("2*a", a=x), fd.evaluate("2*a", {"a": x}), fd.foreach("2*p", [x, x]))
q = np.ones((1, 1, 4, 4), np.float32)
print(fd.attention(q, q, q, mask="j <= i"))
with fd.options(rounding="op", deterministic="batch") as chosen:
    print(chosen.fastmath)
try:
    fd.evaluate("x +", x=x)
except fd.FusedslError as fault:
    print(fault.code, fault.span, fault.column, fault.help, fault.others)
fd.set_num_threads(fd.get_num_threads())
fd.clear_cache(disk=True)
affine.save("affine.fused", x, 2.0, cc=["cpu"])
loaded = fd.load("affine.fused")
hook = fd.on_compile(lambda done: print(done.kernel, done.seconds))
hook.remove()
print(loaded(x, 2.0), fd.metrics().openmetrics(), fd.metrics()["fusedsl_first_calls_total"])
'''  # fmt: skip


@pytest.mark.skipif(shutil.which("pyright") is None, reason="pyright is not installed")
def test_pyright_accepts_a_users_script_in_strict_mode(tmp_path):
    (tmp_path / "script.py").write_text(STRICT)
    settings = {"include": ["script.py"], "typeCheckingMode": "strict", "extraPaths": [str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = ["pyright", "-p", "pyrightconfig.json", "--pythonpath", sys.executable]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0 and "0 errors, 0 warnings" in ran.stdout, ran.stdout + ran.stderr
