"""Arguments of any library as facts, the hot path's keys, and the arrays that a call writes."""

import enum
import sys
import types

import ml_dtypes
import numpy as np
import pytest

from fusedsl.errors import ArgumentError, DeviceError, DTypeError, LimitError
from fusedsl.ir.types import BFLOAT16, DTYPES, FLOAT32, INT32, numpy_dtype
from fusedsl.runtime import argument_keys, array_protocols, arrays, check_outputs, cuda_streams, outputs
from fusedsl.runtime.argument_keys import SLOW, all_argument_keys, argument_key
from fusedsl.runtime.arrays import CPU, ArrayFacts, Weak, describe
from fusedsl.runtime.check_outputs import OutputType, check_out
from fusedsl.runtime.memory_overlap import _Bounds, overlap, overlaps_itself, span
from fusedsl.runtime.outputs import common_order, empty, library_and_device
from fusedsl.runtime.prepared_call import Aliasing, CallMemory, PreparedCall
from fusedsl.runtime.warm_call import build_warm_call

try:
    import torch
except ImportError:  # the rest is tested without it
    torch = None
needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed")


def as_described(facts):
    """The NumPy array that the facts of a CPU array describe, read through its address."""
    size = facts.dtype.itemsize
    bounds = _Bounds(facts)
    bounds.__array_interface__["typestr"] = f"|V{size}"
    return np.asarray(bounds)


class Exporter:
    """An array that is known through DLPack alone."""

    def __init__(self, array, old=False):
        self.array, self.old = array, old

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **keywords):
        if self.old and "max_version" in keywords:
            raise TypeError("unexpected keyword")
        return self.array.__dlpack__(**keywords)


# ---- describing


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_numpy_arrays_and_scalars_of_every_type(dtype):
    x = np.zeros((4, 6), numpy_dtype(dtype))[::-2, 1:]
    facts = describe(x)
    assert (facts.library, facts.dtype, facts.shape, facts.device) == ("numpy", dtype, (2, 5), CPU)
    assert facts.strides == (-12, 1) and facts.pointer == x.ctypes.data and facts.owner is x
    scalar = describe(x[0, 0])
    assert scalar.dtype is dtype and scalar.by_value and scalar.value == 0
    assert argument_key(x[0, 0])[1] == 0


@needs_torch
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_torch_tensors_of_every_type(dtype):
    x = torch.zeros((4, 6), dtype=getattr(torch, dtype.name))[:, 1:].T
    facts = describe(x)
    assert (facts.library, facts.dtype, facts.shape, facts.device) == ("torch", dtype, (5, 4), CPU)
    assert facts.strides == (1, 6) and facts.pointer == x.data_ptr()
    assert describe(x[0, 0]).value == 0 and argument_key(x[0, 0])[1] == 0


def test_python_numbers_are_weak():
    class Colour(enum.IntEnum):
        RED = 3

    assert describe(True) == Weak("b", True)
    assert describe(3) == Weak("i", 3) == describe(Colour.RED)
    assert describe(2.5) == Weak("f", 2.5)
    assert argument_key(Colour.RED) == argument_key(3) == (int, 3)
    assert [describe(x).dtype.name for x in (True, 1, 1.0)] == ["bool", "int64", "float64"]
    assert isinstance(describe(np.float64(1)), ArrayFacts)  # a Python float by inheritance, and strong all the same


@needs_torch
@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "bfloat16", "float32", "float64"])
def test_dlpack_arrays(dtype, old):
    x = torch.arange(12).reshape(3, 4).to(getattr(torch, dtype))[:, ::2]
    facts = describe(Exporter(x, old))
    assert (facts.library, facts.dtype.name, facts.shape, facts.strides) == ("dlpack", dtype, (3, 2), (4, 2))
    assert facts.pointer == x.data_ptr() and facts.device == CPU
    key, address = argument_key(Exporter(x))
    assert address == x.data_ptr() and key == argument_key(Exporter(x))[0]


@needs_torch
def test_dlpack_keeps_an_exported_copy_alive():
    class Copies(Exporter):
        def __dlpack__(self, **keywords):
            return torch.full((1000,), 7.0).__dlpack__(**keywords)

    described, (_, address) = describe(Copies(torch.zeros(1000))), argument_key(Copies(torch.zeros(1000)))
    churn = [torch.zeros(1000) for _ in range(100)]
    assert (as_described(described).view(np.float32) == 7).all()
    assert (as_described(ArrayFacts("dlpack", FLOAT32, (1000,), (1,), address, CPU, False, None)).view("f4") == 7).all()
    assert len(churn) == 100


@needs_torch
def test_dlpack_scalars_and_read_only_arrays():
    assert describe(Exporter(torch.tensor(2.5))).value == 2.5
    x = np.arange(3.0)
    x.flags.writeable = False
    assert describe(Exporter(x)).readonly and not describe(Exporter(np.arange(3.0))).readonly


def test_dlpack_devices_that_are_not_ours():
    class Metal(Exporter):
        def __dlpack_device__(self):
            return (8, 0)

    with pytest.raises(DeviceError, match="neither"):
        describe(Metal(np.zeros(3)))


def refused(argument, error, *words):
    known = (np.generic, np.ndarray) if torch is None else (np.generic, np.ndarray, torch.Tensor)
    assert argument_key(argument)[0] == SLOW or isinstance(argument, known)
    with pytest.raises(error) as fault:
        describe(argument, "x")
    for word in ("x", *words):
        assert word in str(fault.value)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::PendingDeprecationWarning")
def test_what_is_no_array_is_refused_with_the_form_to_use():
    refused([1, 2], ArgumentError, "list", "numpy.asarray(x)")
    refused((1, 2), ArgumentError, "tuple", "numpy.asarray(x)")
    refused("text", ArgumentError, "str")
    refused(None, ArgumentError, "None")
    refused(np.ma.masked_array([1.0, 2.0], [0, 1]), ArgumentError, "MaskedArray", "x.filled(0)", "x.mask")
    refused(np.matrix([[1.0]]), ArgumentError, "matrix", "numpy.asarray(x)")
    refused(__import__("fractions").Fraction(1, 3), ArgumentError, "float(x)")


@needs_torch
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_tensors_that_are_no_arrays_are_refused_with_the_form_to_use():
    refused(torch.zeros(3).to_sparse(), ArgumentError, "sparse", "x.to_dense()")
    refused(torch.eye(3).to_sparse_csr(), ArgumentError, "sparse", "x.to_dense()")
    refused(torch.zeros(3, requires_grad=True), ArgumentError, "requires grad", "x.detach()")
    refused(torch.nn.Parameter(torch.zeros(3)), ArgumentError, "x.detach()")
    refused(torch.zeros(3, device="meta"), DeviceError, "meta")


def test_other_libraries_containers_are_refused_with_the_form_to_use():
    for module, form in (("pandas.core.series", "x.to_numpy()"), ("scipy.sparse._csr", "x.toarray()")):
        kind = type("Box", (), {"__module__": module, "__array__": lambda self: np.zeros(3)})
        refused(kind(), ArgumentError, f"{module}.Box", form)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_element_types_that_no_kernel_knows():
    refused(np.zeros(3, complex), DTypeError, "complex128", "x.real")
    refused(np.complex64(1), DTypeError, "complex64")
    refused(2j, DTypeError, "complex")
    refused(np.zeros(3, np.longdouble), DTypeError, "numpy.float64")
    refused(np.longdouble(3), DTypeError, "numpy.float64")
    refused(np.zeros(3, "U3"), DTypeError, "str")
    refused(np.zeros(3, "S3"), DTypeError, "bytes")
    refused(np.zeros(3, np.dtypes.StringDType()), DTypeError, "String")
    refused(np.zeros(3, "M8[s]"), DTypeError, "datetime64", "numpy.int64")
    refused(np.zeros(3, object), DTypeError, "object")
    refused(np.zeros(3, [("a", "f4")]), DTypeError, 'x["field"]')


@needs_torch
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_element_types_of_tensors_that_no_kernel_knows():
    refused(torch.zeros(3, dtype=torch.complex64), DTypeError, "complex64")
    refused(torch.quantize_per_tensor(torch.zeros(3), 1.0, 0, torch.qint8), DTypeError, "qint8")


@needs_torch
def test_a_tensor_that_requires_grad_is_an_argument_where_grad_is_off():
    x = torch.zeros(3, requires_grad=True)
    with torch.no_grad():
        assert describe(x).pointer == x.data_ptr() == argument_key(x)[1]
    with torch.inference_mode():
        assert argument_key(torch.zeros(3))[0] != SLOW


@pytest.mark.parametrize(
    "x",
    [
        np.arange(6, dtype=">f4").reshape(2, 3),
        np.arange(25, dtype=np.uint8)[1:].view("f4").reshape(2, 3),
        np.array([(1, 2.0), (3, 4.0)], [("a", "i1"), ("b", "f8")])["b"],
        np.asfortranarray(np.arange(6, dtype=">i8").reshape(2, 3)),
        np.arange(3, dtype=">i2").reshape(3, 1)[:, 0],
    ],
    ids=["swapped", "misaligned", "odd strides", "swapped columns", "swapped view"],
)
def test_memory_that_kernels_cannot_read_is_copied(x):
    facts = describe(x)
    assert facts.copied and facts.owner is not x and np.array_equal(facts.owner, x)
    assert argument_key(x)[0] != argument_key(facts.owner)[0]
    assert not describe(facts.owner).copied
    assert facts.pointer % facts.dtype.itemsize == 0
    if x.dtype.isnative:
        assert check_out(x, OutputType(x.shape, facts.dtype, CPU), {}).copied  # written after the launch
        return
    with pytest.raises(ArgumentError):
        check_out(x, OutputType(x.shape, facts.dtype, CPU), {})


@needs_torch
def test_a_lazily_negated_tensor_is_resolved():
    x = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
    assert x.is_neg() and argument_key(x)[0] == SLOW
    assert describe(x).owner.tolist() == [-2.0, 4.0] and describe(x).copied


@needs_torch
def test_tensors_inside_a_transform_have_no_memory():
    seen = []

    def inside(x):
        seen.append(argument_key(x)[0])
        with pytest.raises(ArgumentError):
            describe(x, "x")
        return x

    torch.func.vmap(inside)(torch.zeros(2, 3))
    assert seen == [SLOW]


def test_describing_imports_no_library():
    import subprocess

    code = (
        "import sys, numpy\n"
        "from fusedsl.runtime.arrays import describe\n"
        "from fusedsl.runtime.argument_keys import argument_key\n"
        "describe(numpy.zeros(3)), describe(2.5), argument_key(numpy.zeros(3)), argument_key(object())\n"
        "print([m for m in ('torch', 'cupy', 'numba', 'cuda', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---- CuPy and __cuda_array_interface__, with stand-ins


class FakeCudaArray:
    """What describe and look use of cupy.ndarray."""

    def __init__(self, shape, strides, dtype="float32", pointer=0x7F0000000000, device=0):
        self.shape, self.strides, self.dtype = shape, strides, np.dtype(dtype)
        self.data = types.SimpleNamespace(ptr=pointer, device_id=device)


@pytest.fixture
def cupy(monkeypatch):
    stream = types.SimpleNamespace(ptr=77)
    runtime = types.SimpleNamespace(getDeviceCount=lambda: 2)
    cuda = types.SimpleNamespace(
        is_available=lambda: True, get_current_stream=lambda device=None: stream, runtime=runtime
    )
    module = types.SimpleNamespace(ndarray=FakeCudaArray, cuda=cuda)
    monkeypatch.setitem(sys.modules, "cupy", module)
    yield module
    argument_keys._key_functions.pop(FakeCudaArray, None)


def test_cupy_arrays(cupy):
    x = FakeCudaArray((2, 3), (4, 8), pointer=0x7F0000000004, device=1)
    facts = describe(x)
    assert (facts.library, facts.dtype, facts.strides, facts.device) == ("cupy", FLOAT32, (1, 2), ("cuda", 1))
    assert argument_key(x) == ((np.dtype("f4"), (2, 3), (4, 8), 4, 1), 0x7F0000000004)
    with pytest.raises(ArgumentError, match="asarray"):
        describe(type("Odd", (FakeCudaArray,), {})((2,), (4,)))
    assert cuda_streams.current_stream("cupy", ("cuda", 1)) == 77
    assert cuda_streams.current_stream("numpy", CPU) == 0


class Interface:
    """An array known through __cuda_array_interface__ alone."""

    def __init__(self, **changes):
        facts = {"shape": (2, 3), "typestr": "<f4", "data": (0x7F0000000000, False), "version": 3}
        self.__cuda_array_interface__ = {**facts, **changes}


@pytest.fixture
def fake_driver(monkeypatch):
    ordered = []
    driver = types.SimpleNamespace(
        pointer_device=lambda pointer: 0 if pointer == 0x7F0000000000 else None,
        current_device=lambda: 0,
        order=lambda producer, consumer: ordered.append((producer, consumer)),
        ordered=ordered,
    )
    monkeypatch.setattr(array_protocols, "driver", lambda: driver)
    return driver


def test_a_replayed_call_of_cupy_arrays(cupy):
    def make(**more):
        return FakeCudaArray(*more.pop("layout", ((2, 3), (12, 4))), **more)

    fired = []

    def lines(words, constants, name, watch):
        assert constants == {2: 0, 3: 0, 4: 5}
        return [], [f"{name(fired.append)}((({', '.join(words)}), stream))"]

    launch = types.SimpleNamespace(
        fire=None, on_device=True, layout=types.SimpleNamespace(slots=()), repeat_lines=lines
    )
    launch.watches = lambda watch, constants: False
    makers = [outputs.Allocator(lambda: make(pointer=0x7F0000002000), (MemoryError,), 24, "float32[2, 3]")]
    read = cuda_streams.stream_reader("cupy", ("cuda", 0))
    call = PreparedCall([launch], [5], CallMemory(makers, None, None, read, "cupy"), Aliasing([(0, 24)], [(0, 24)]))
    call.on_device = True
    x, out = make(), make(pointer=0x7F0000001000)
    fresh, written = build_warm_call(call, [x], None, [make()]), build_warm_call(call, [x], [out], [out])
    again = make(pointer=0x7F0000000100)
    assert fresh([again], None).data.ptr == 0x7F0000002000 and written([again], out) is out
    assert [(p[:2], p[-1], stream) for p, stream in fired] == [
        ((0x7F0000000100, 0x7F0000002000), 5, 77),
        ((0x7F0000000100, 0x7F0000001000), 5, 77),
    ]
    for other in (
        make(device=1),
        make(pointer=0x7F0000000104),
        make(dtype="int32"),
        make(layout=((2, 3), (4, 8))),
        make(layout=((3, 2), (8, 4))),
        np.zeros((2, 3), np.float32),
        2.0,
    ):
        assert fresh([other], None) is None and written([other], out) is None
    assert written([x], make(pointer=0x7F0000000010)) is None  # overlaps the argument
    assert fresh([x], out) is None and written([x], None) is None and written([x], (out,)) is None


def test_the_cuda_array_interface(fake_driver, cupy):
    facts = describe(Interface(strides=(4, 8), stream=5))
    assert (facts.library, facts.dtype, facts.strides, facts.device) == ("interface", FLOAT32, (1, 2), ("cuda", 0))
    streams_of_libraries = cuda_streams.imported_streams(0)  # torch's, too, where it has a card
    assert 77 in streams_of_libraries and fake_driver.ordered == [(5, ours) for ours in streams_of_libraries]
    assert describe(Interface()).strides == (3, 1)
    assert describe(Interface(data=(0x7F0000000000, True))).readonly
    assert describe(Interface(shape=(0, 3), data=(0, False))).shape == (0, 3)
    assert describe(Interface(typestr="|b1")).dtype.name == "bool"
    assert library_and_device({"x": facts, "y": describe(FakeCudaArray((3,), (4,)))}) == ("cupy", ("cuda", 0))
    assert library_and_device({"x": facts}) == ("cupy", ("cuda", 0))


def test_faults_of_the_cuda_array_interface(fake_driver):
    refused(Interface(data=(0, False)), ArgumentError, "no device memory")
    refused(Interface(data=None), ArgumentError, "no device memory")
    refused(Interface(data=(0x1234, False)), ArgumentError, "freed")
    refused(Interface(mask=Interface()), ArgumentError, "mask")
    refused(Interface(typestr=">f4"), DTypeError, "byte-swapped")
    refused(Interface(typestr="<c8"), DTypeError, "complex64")
    refused(Interface(strides=(6, 2)), ArgumentError, "strides")
    refused(Interface(stream=0), ArgumentError, "stream 0")


# ---- keys


@needs_torch
def test_keys_tell_apart_what_a_launch_depends_on():
    base = np.zeros((8, 8), np.float32)
    different = [
        base, base[:4], base[::2], base.T[1:], base.astype("f8"), base.astype(">f4"), base.reshape(-1),
        base[:, 1:7], base[:, 2:8], torch.zeros(8, 8), np.float32(1), np.float64(1), 1, 1.0, True, np.zeros(()),
    ]  # fmt: skip
    assert len({argument_key(x)[0] for x in different}) == len(different)
    for same in (lambda: np.ones((8, 8), np.float32), lambda: torch.ones(8, 8), lambda: np.float32(7), lambda: 5):
        assert argument_key(same())[0] == argument_key(same())[0]


@needs_torch
def test_payloads_are_addresses_or_numbers():
    x, t = np.zeros((3, 4)), torch.zeros(3, 4)
    values = [x, t, x[1:, 2:], 3, 2.5, True, np.float32(0.1), np.asarray(7), torch.tensor(9), ml_dtypes.bfloat16(1.5)]
    key, payloads = all_argument_keys(values)
    assert payloads[:3] == [x.ctypes.data, t.data_ptr(), x.ctypes.data + 48]
    assert payloads[3:] == [3, 2.5, True, float(np.float32(0.1)), 7, 9, 1.5]
    assert hash(key) == hash(all_argument_keys(values)[0])


# ---- where a call runs


def facts_of(library, device, shape=(3,)):
    return ArrayFacts(library, FLOAT32, shape, (1,) * len(shape), 64, device, False, None)


@needs_torch
def test_rank_0_host_values_and_numbers_go_with_anything():
    gpu = facts_of("torch", ("cuda", 1))
    assert library_and_device({"a": describe(np.float32(1)), "x": gpu, "b": Weak("i", 1)}) == ("torch", ("cuda", 1))
    assert library_and_device({"a": describe(torch.tensor(1.0)), "x": describe(np.zeros(3))}) == ("numpy", CPU)
    assert library_and_device({"a": describe(torch.tensor(1.0)), "b": describe(np.float32(1))}) == ("torch", CPU)
    assert library_and_device({"a": Weak("i", 1)}) == ("numpy", CPU)
    assert library_and_device({"x": describe(Exporter(np.zeros(3)))}) == ("numpy", CPU)
    assert library_and_device({"x": describe(Exporter(np.zeros(3))), "y": describe(torch.zeros(3))}) == ("torch", CPU)


@pytest.mark.parametrize(
    "x, y, words",
    [
        (("numpy", CPU), ("torch", CPU), ["x is a NumPy array on the CPU", "y is a torch tensor on the CPU"]),
        (("numpy", CPU), ("torch", ("cuda", 0)), ["cuda:0", 'torch.asarray(x, device="cuda:0")']),
        (("cupy", ("cuda", 0)), ("numpy", CPU), ["a CuPy array on cuda:0", "cupy.asarray(y)"]),
        (("torch", ("cuda", 0)), ("torch", ("cuda", 1)), ["cuda:0", "cuda:1"]),
        (("cupy", ("cuda", 0)), ("torch", ("cuda", 0)), ["a CuPy array", "a torch tensor"]),
    ],
)
def test_mixed_libraries_and_devices_are_named(x, y, words):
    with pytest.raises(DeviceError) as fault:
        library_and_device({"x": facts_of(*x), "y": facts_of(*y)})
    assert all(word in str(fault.value) for word in words), str(fault.value)


# ---- results


@pytest.mark.parametrize("library", ["numpy", pytest.param("torch", marks=needs_torch)])
@pytest.mark.parametrize("order", [None, (0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_new_arrays_have_the_order_that_was_asked_for(library, order):
    for dtype in (FLOAT32, BFLOAT16):
        new = describe(empty(library, CPU, (2, 3, 4), dtype, order))
        assert (new.library, new.shape, new.dtype) == (library, (2, 3, 4), dtype)
        assert new.strides == array_protocols.packed_strides((2, 3, 4), order)
        assert new.pointer % 16 == 0 and not new.readonly
    assert type(empty("numpy", CPU, (), FLOAT32)) is np.ndarray
    assert describe(empty(library, CPU, (0, 3), INT32)).shape == (0, 3)


@pytest.mark.parametrize("library", ["numpy", pytest.param("torch", marks=needs_torch), "dlpack"])
def test_an_output_beyond_memory_is_a_limit(library):
    with pytest.raises(LimitError, match=r"no memory for .* GB of float32"):
        empty(library, CPU, (1 << 50,), FLOAT32)


def test_the_common_order_is_numpys_wherever_the_inputs_agree():
    a = np.zeros((3, 4, 5))
    views = [a, a.copy("F"), a.transpose(1, 0, 2).copy().transpose(1, 0, 2), np.zeros((3, 4, 10))[:, ::-1, ::2]]
    small = [np.zeros(5), np.zeros((4, 1)), np.zeros((3, 1, 1), order="F"), np.zeros((1, 4, 1)), np.float64(1)]
    for x in views:
        for y in [x] + small:
            expected = x + y
            found = common_order([(v.shape, v.strides) for v in (x, y)], 3)
            assert array_protocols.packed_strides((3, 4, 5), found) == tuple(s // 8 for s in expected.strides)
    for x, y in ((views[0], views[1]), (views[1], np.zeros((1, 4, 5)))):  # no common order, so C
        assert common_order([(v.shape, v.strides) for v in (x, y)], 3) is None
    assert common_order([], 2) is None


# ---- out=


def test_out_is_exactly_the_result():
    x = np.zeros((3, 4), np.float32)
    assert check_out(x, OutputType((3, 4), FLOAT32, CPU), {"x": describe(x)}).owner is x  # in place
    assert check_out(np.zeros((), np.float32), OutputType((), FLOAT32, CPU), {}).shape == ()
    check_out(np.asfortranarray(x), OutputType((3, 4), FLOAT32, CPU), {"x": describe(x)})
    read_only = np.zeros((3, 4), np.float32)
    read_only.flags.writeable = False
    wrong = {
        "has shape": np.zeros((4,), np.float32),
        "has shape (3, 1)": np.zeros((3, 1), np.float32),
        "holds float64": np.zeros((3, 4)),
        "read-only": read_only,
        "share memory": np.lib.stride_tricks.as_strided(x, (3, 4), (4, 4)),
        "is not an array": 3.0,
    }
    for words, out in wrong.items():
        with pytest.raises(ArgumentError) as fault:
            check_out(out, OutputType((3, 4), FLOAT32, CPU), {})
        assert words in str(fault.value)
    with pytest.raises(ArgumentError, match=r"share memory|read-only"):
        check_out(np.broadcast_to(np.float32(1), (3, 4)), OutputType((3, 4), FLOAT32, CPU), {})
    with pytest.raises(ArgumentError):
        check_out(np.float32(1), OutputType((), FLOAT32, CPU), {})
    with pytest.raises(DeviceError, match="out is a NumPy array on the CPU"):
        check_out(x, OutputType((3, 4), FLOAT32, ("cuda", 0)), {})


def test_out_may_be_an_input_exactly_and_overlap_nothing():
    base = np.zeros(100, np.float32)
    x = describe(base[10:20])
    check_out(base[10:20], OutputType((10,), FLOAT32, CPU), {"x": x})
    check_out(base[20:30], OutputType((10,), FLOAT32, CPU), {"x": x})
    check_out(base[0:20:2], OutputType((10,), FLOAT32, CPU), {"x": describe(base[1:21:2])})  # interleaved
    for out in (base[11:21], base[9:19], base[19:9:-1], base[10:30:2]):
        with pytest.raises(ArgumentError, match="out overlaps x"):
            check_out(out, OutputType((10,), FLOAT32, CPU), {"x": x})
    with pytest.raises(ArgumentError, match="another output"):
        check_out(base[10:20], OutputType((10,), FLOAT32, CPU), {}, others=[x])


def test_overlap_and_span_agree_with_numpy():
    base = np.zeros((12, 12), np.int32)
    rows, columns = (slice(0, 6), slice(1, 12, 2), slice(10, 2, -3)), (slice(0, 12, 3), slice(5, None, -1))
    views = [base[r, c] for r in rows for c in columns]
    views += [base.T[2:5], base[3:3], base[:, 4], base.diagonal()]
    for u in views:
        facts = describe(u)
        low, high = np.lib.array_utils.byte_bounds(u) if u.size else (facts.pointer, facts.pointer)
        assert span(facts) == (low - facts.pointer, high - facts.pointer)
        for v in views:
            assert (overlap(facts, describe(v)) is not None) == np.shares_memory(u, v)
        assert overlap(facts, describe(u)) in ("same", None)


def test_overlap_never_reads_the_addresses():
    a = ArrayFacts("cupy", FLOAT32, (10, 10), (20, 2), 0x10, ("cuda", 0), False, None)
    b = ArrayFacts("cupy", FLOAT32, (10, 10), (20, 2), 0x14, ("cuda", 0), False, None)
    c = ArrayFacts("cupy", FLOAT32, (10, 10), (20, 2), 0x14, ("cuda", 1), False, None)
    assert overlap(a, b) is None and overlap(b, c) is None and overlap(a, a) == "same"


def test_self_overlap():
    def strided(shape, strides):
        return ArrayFacts("numpy", FLOAT32, shape, strides, 64, CPU, False, None)

    assert overlaps_itself(strided((3, 4), (1, 1))) and overlaps_itself(strided((3,), (0,)))
    assert overlaps_itself(strided((3, 4), (3, 1)))
    assert not overlaps_itself(strided((3, 4), (4, 1))) and not overlaps_itself(strided((3, 4), (-1, 3)))
    assert not overlaps_itself(strided((1, 4), (0, 1))) and not overlaps_itself(strided((0, 4), (0, 0)))


@needs_torch
def test_writing_a_tensor_is_seen_by_autograd():
    x = torch.zeros(3)
    before = x._version
    check_outputs.mark_written(x)
    assert x._version == before + 1


def test_array_is_what_the_module_documents():
    assert arrays.describe(np.zeros(3)).where == "a NumPy array on the CPU"
    assert array_protocols.packed_strides((2, 0, 3)) == (3, 3, 1)
