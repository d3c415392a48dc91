"""Byte tables: which values of a body depend on one 8-bit element alone, and that their bits are those of the chain."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from written import instructions

import fusedsl as fd
from fusedsl.backends.cpu import byte_tables as chosen
from fusedsl.ir.types import FLOAT32, FLOAT64, UINT8
from fusedsl.kernel_ir.byte_tables import byte_tables, looked_up, tables_of
from fusedsl.kernel_ir.kernel import KernelIR, Load, Operand
from fusedsl.kernel_ir.phase import Body, Phase, Store, Value

RANDOM = np.random.default_rng(2)
BYTES = np.concatenate([np.arange(256), RANDOM.integers(0, 256, 60_000)]).astype(np.uint8)
IMAGE = BYTES[:60_000].reshape(300, 200)
CHAINS = {
    "gamma": ("uint8(255 * (u / 255.0) ** 0.45)", {"u": BYTES}),
    "signed": ("sin(sinh(float32(u) * 0.01)) * 3", {"u": BYTES.view(np.int8)}),
    "bool": ("lgamma(float64(u) + 3)", {"u": BYTES > 100}),
    "float8": ("tan(sin(cos(float32(u))))", {"u": BYTES.view(ml_dtypes.float8_e5m2)}),
    "an argument": ("uint8(255 * (u / 255.0) ** g) + uint8(1)", {"u": BYTES, "g": 0.7}),
    "other bytes": ("tan(sin(cos(float32(u)))) - sin(cos(u * 1.0)) * v", {"u": BYTES, "v": BYTES[::-1]}),
    "turned": ("cbrt(sin(u * 1.0)).T + v", {"u": IMAGE, "v": IMAGE.T.copy()}),
    "cut": ("cbrt(sin(u * 1.0))", {"u": IMAGE[::2, 3:150]}),
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
def test_a_table_has_the_bits_of_the_chain_on_cpus(name, monkeypatch):
    text, arrays = CHAINS[name]
    kernel = fd.kernel(text, fallback=False)
    made, source = kernel(**arrays), str(kernel.source(**arrays))
    assert "_table_get" in source
    monkeypatch.setattr(chosen, "with_byte_tables", lambda kernel, *_: kernel)
    plain = fd.kernel(f"({text})", fallback=False)
    assert "_table_get" not in str(plain.source(**arrays))
    assert made.tobytes() == plain(**arrays).tobytes()


def test_short_arrays_have_no_tables():
    assert "_table_get" not in fd.kernel("uint8(255 * (u / 255.0) ** 0.45)").source(BYTES[:1000])


def mapped(*lines, results, arguments=(("u_0", UINT8), ("v_0", UINT8), ("x_0", FLOAT32))):
    """A map of these loads, whose body has these lines."""
    values = tuple(Value(name, d) for name, d in arguments)
    operands = tuple(Operand(v.name[0], v.dtype, "1", "vector") for v in values)
    outputs = tuple(Operand(f"out{k}", d, "1", "vector") for k, (_, d) in enumerate(results))
    loads = tuple(Load(v, k) for k, v in enumerate(values))
    body = Body(values, tuple(Value(n, d) for n, d in results), instructions(*lines))
    stores = tuple(Store(n, len(values) + k) for k, (n, _) in enumerate(results))
    return KernelIR("m", (), 0, 1, len(values), operands + outputs, loads, (), (), (Phase(body, stores),))


def found(kernel):
    return tables_of(kernel, kernel.phases[0].element, lambda chain, d: len(chain) > 1)


def test_what_depends_on_one_byte_is_a_table_up_to_where_another_value_joins():
    kernel = mapped(
        "a_0 = float32(u_0)", "b_0 = exp(a_0)", "c_0 = b_0 + x_0", "d_0 = sin(c_0)", results=[("d_0", FLOAT32)]
    )  # fmt: skip
    assert found(kernel) == ("b_0",)
    two = mapped("a_0 = float32(u_0)", "b_0 = exp(a_0)", "c_0 = float32(v_0)", "d_0 = sin(c_0)", "e_0 = d_0 / b_0",
                 results=[("e_0", FLOAT32)])  # fmt: skip
    assert found(two) == ("b_0", "d_0")


def test_a_product_that_is_added_to_other_values_is_contracted_not_looked_up():
    kernel = mapped(
        "a_0 = float32(u_0)", "b_0 = exp(a_0)", "c_0 = b_0 * b_0", "d_0 = c_0 + x_0", results=[("d_0", FLOAT32)]
    )  # fmt: skip
    assert found(kernel) == ("b_0",)
    negated = mapped("a_0 = float32(u_0)", "b_0 = exp(a_0)", "c_0 = b_0 * b_0", "d_0 = -c_0", "e_0 = d_0 + x_0",
                     results=[("e_0", FLOAT32)])  # fmt: skip
    assert found(negated) == ("b_0",)


def test_the_rest_of_a_body_takes_what_tables_have():
    from dataclasses import replace

    kernel = mapped(
        "a_0 = float64(u_0)", "b_0 = exp(a_0)", "c_0 = float64(x_0)", "d_0 = b_0 / c_0", results=[("d_0", FLOAT64)]
    )  # fmt: skip
    kernel = replace(kernel, tables=found(kernel))
    tables = byte_tables(kernel)
    assert [str(i) for i in tables["b_0"].entry.instructions] == ["a_0 = float64(u_0)", "b_0 = exp(a_0)"]
    rest = looked_up(kernel.phases[0].element, tables.values())
    assert {v.name for v in rest.args} == {"x_0", "b_0"}
    assert [i.target for i in rest.instructions] == ["c_0", "d_0"]
