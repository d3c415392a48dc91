"""Intrinsics are declared as their code takes them, and emitters cannot misspell them."""

import inspect
from importlib import import_module
from pathlib import Path

import pytest

from fusedsl.backends import cuda
from fusedsl.backends.cuda.compiler.namespace import namespace
from fusedsl.backends.cuda.compiler.numba_backend import emitted, numba_type, types
from fusedsl.backends.cuda.emit.intrinsic import FILES, Function, Maker, Method, Named
from fusedsl.backends.cuda.tile import Tile, load_value, udiv

CUDA = Path(cuda.__file__).parent


def shape(parameters):
    """Of each parameter: whether it is one of many, whether it has a default."""
    return [(name.startswith("*"), "=" in name) for name in parameters.split(", ") if name]


def shape_of(function, skipped=0):
    found = [p for p in inspect.signature(function).parameters.values() if p.kind is not p.KEYWORD_ONLY][skipped:]
    return [(p.kind is p.VAR_POSITIONAL, p.default is not p.empty) for p in found]


def declared():
    return [(file, name, one) for file, names in FILES.items() for name, one in names.items()]


@pytest.mark.parametrize(("file", "name", "one"), declared(), ids=lambda value: str(value))
def test_an_intrinsic_is_declared_as_its_code_takes_it(file, name, one):
    code = namespace()[name]
    assert code is getattr(import_module(f"fusedsl.backends.cuda.{file}"), name)
    if isinstance(one, Function):
        assert shape(one.takes) == shape_of(code, skipped=1)  # without the context
        return
    assert shape(one.parameters) == shape_of(code)


def makers_with_methods():
    return [
        (name, one.defines) for _, name, one in declared() if isinstance(one, Maker) and inspect.isclass(one.defines)
    ]


@pytest.mark.parametrize(("name", "defines"), makers_with_methods(), ids=lambda value: str(value))
def test_a_method_is_declared_as_its_code_takes_it(name, defines):
    for method, one in vars(defines).items():
        if isinstance(one, Method):
            assert shape(one.parameters) == shape_of(getattr(namespace()[name], method), skipped=1)


def test_what_is_misspelt_is_not_emitted():
    tile = Tile(width=4, vectors=1, checks=".").defines("tile")
    assert str(tile.load("float32", "1")) == 'tile.load("float32", "1")'
    assert udiv("n", 4) == "udiv(n, 4)"
    with pytest.raises(AttributeError):
        tile.lood("float32")
    with pytest.raises(TypeError, match="udiv"):
        udiv("n")
    with pytest.raises(TypeError, match="load_value"):
        load_value()
    assert isinstance(tile, Named)


def test_no_intrinsic_has_the_name_of_a_file_beside_it():
    """Importing the file would put the module in the place of the intrinsic."""
    packages = {file.rpartition(".")[0] for file in FILES}
    files = {
        f"{package}.{path.stem}" for package in packages for path in (CUDA / package.replace(".", "/")).glob("*.py")
    }
    intrinsics = {f"{file.rpartition('.')[0]}.{name}" for file, names in FILES.items() for name in names}
    assert files and not files & intrinsics


def test_constants_of_an_intrinsic_are_keyword_parameters_of_its_code():
    @emitted(lambda name, count: types.UniTuple(numba_type(name), count))
    def repeat(e, value, *, kinds, name: str, count: int = 2):
        return [(value, kinds, name)] * count

    assert str(inspect.signature(repeat)) == "(name: str, count: int = 2)"
    result, code = repeat("int32").rule(types.int64)
    assert result == types.UniTuple(types.int32, 2)
    assert code(Packed(), "x") == (result, [("x", (types.int64,), "int32")] * 2)
    assert repeat("int32", count=3).rule(types.int64)[1](Packed(), "x")[1] == [("x", (types.int64,), "int32")] * 3


class Packed:
    """Packs values as (type, values)."""

    def pack(self, kind, values):
        return kind, values
