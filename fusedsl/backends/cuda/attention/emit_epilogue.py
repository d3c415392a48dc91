"""Emits the output epilogue: row values and output elements from the final state, and their stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ....kernel_ir.phase import Body, Store, Value
from ..mma import scatter_fragment, splat_rows, store_fragment, store_row_values
from .emit_fragment import OUTPUT, Domain, FragmentEmitter
from .emit_softmax import OnlineSoftmax

PAIRED = ("bfloat16", "float16", "float32", "float64")  # output dtypes that are stored two elements at a time
NO_STORES: Mapping[int, Callable[[str], None]] = MappingProxyType({})


class Epilogue:
    """The outputs of a work tile; `stores` emit the stores of operands that leave in another way than row by row."""

    def __init__(
        self, values: FragmentEmitter, softmax: OnlineSoftmax, stores: Mapping[int, Callable[[str], None]] = NO_STORES
    ):
        self.values, self.softmax, self.facts, self.stores = values, softmax, values.facts, stores
        self.kernel, self.body = values.kernel, values.facts.body

    def emit(self) -> None:
        values, facts = self.values, self.facts
        for name, label in self.softmax.late_reductions().items():
            values.emit(f"{name} = all_reduce_{label}({name})")
        if self.body.row_epilogue:
            values.apply("row_epilogue", self.body.row_epilogue, Domain.ROW)
        for number, store in enumerate(self.body.row_outputs):
            self._emit_row_store(number, store)
        if self.body.epilogues:
            values.domain[facts.output] = Domain.OUTPUT
            values.source.bind("output_offsets", OUTPUT.column_offsets())
        finite = "finite" if facts.has_output and facts.weighted_sum.is_active else ""
        with values.source.if_(finite), values.scope():
            for number, epilogue in enumerate(self.body.epilogues):
                self._emit_elements(number, epilogue.body)
                for store in epilogue.stores:
                    if store.operand in self.stores:
                        self.stores[store.operand](store.value)
                    else:
                        self._emit_store(store, epilogue.axis)

    def _emit_row_store(self, number: int, store: Store) -> None:
        values, dtype, shown = self.values, self.kernel.operands[store.operand].dtype, store.value
        write = values.source.bind(f"store_row{number}", store_row_values(dtype.name))
        if values.domain_of(shown) is Domain.SCALAR:
            shown = values.source.bind(f"splat_row{number}", splat_rows(dtype.compute.name))(shown)
        values.emit(write(values.row_address(store.operand), shown, "rows", self.facts.row_limit))

    def _emit_store(self, store: Store, axis: int) -> None:
        """Store output elements; their rows lie along an axis."""
        operand, width = self.kernel.operands[store.operand], self.facts.tiling.head_dim_v
        address, name = self.values.row_address(store.operand), self.facts.names.operand(store.operand)
        contiguous = operand.strides[axis] == "1"
        how, step = scatter_fragment, [f"int64({'1' if contiguous else self.facts.names.stride(store.operand, axis)})"]
        if contiguous and operand.access == "vector" and operand.dtype.name in PAIRED and width % 8 == 0:
            how, step = store_fragment, []
        write = self.values.source.bind(f"store_{name}", how(width, operand.dtype.name))
        self.values.emit(write(address, store.value, "rows", self.facts.row_limit, *step))

    def _emit_elements(self, number: int, body: Body) -> None:
        """Emit the output elements. Loads are issued at their use: no register holds them longer."""
        values = self.values
        domains = {v.name: values.leaf_domain(v.name) for v in body.args}
        loads = {load.value.name: load.operand for load in self.kernel.loads}
        outputs = (Domain.OUTPUT, Domain.OUTPUT_COLUMN)
        read = [v for v in body.args if v.name in loads and domains[v.name] in outputs]
        rest = [v for v in body.args if v not in read]
        if any(domains[v.name] is Domain.OUTPUT_COLUMN for v in rest):
            values.source.bind("output_columns", OUTPUT.column_index("int64"))
            clamped = ["return minimum(c, n - 1)"]
            values.define("clamp_output", Domain.OUTPUT_COLUMN, "int64, int64 -> int64", "c, n", clamped)
            values.emit(f"output_column = clamp_output(output_columns(0), n{self.facts.value_axis})")
        values.load_leaves(v.name for v in rest)
        if read:
            self._call_in_chunks(f"epilogue_{number}", body, {v: loads[v.name] for v in read}, rest)
        else:
            values.call(f"epilogue_{number}", body, Domain.OUTPUT)

    def _call_in_chunks(self, name: str, body: Body, read: Mapping[Value, int], rest: list[Value]) -> None:
        """Call a body that loads operands chunk by chunk: `read` are the loaded values, `rest` its other arguments."""
        values = self.values
        lines = [f"valid = c < {self.facts.tiling.head_dim_v} - first"]
        parameters, arguments = {"c": "int64", "first": "int64"}, ["output_offsets()", "first_column()"]
        for v, k in read.items():
            dtype, step = self.kernel.operands[k].dtype, self.facts.byte_step(k, self.facts.value_axis)
            lines.append(f"{v.name} = fetch_{dtype}(at_{v.name} + c * step_{v.name}, valid)")
            parameters |= {f"at_{v.name}": "int64", f"step_{v.name}": "int64"}
            rowwise = values.leaf_domain(v.name) is Domain.OUTPUT
            values.emit(f"at_{v.name} = {values.row_address(k) if rowwise else self.facts.base_address(k)}")
            arguments += [values.offset_rows(f"at_{v.name}", f"first_column() * {step}"), step]
        parameters |= {v.name: v.dtype.name for v in rest}
        results = [v for v in body.results if v not in body.args]
        shown = ", ".join(v.name for v in results)
        types = f"{', '.join(parameters.values())} -> {', '.join(v.dtype.name for v in results)}"
        lines += [*values.body_lines(body), f"return {shown}"]
        values.define(name, Domain.OUTPUT_IN_CHUNKS, types, ", ".join(parameters), lines)
        values.emit(f"{shown} = {name}({', '.join([*arguments, *(v.name for v in rest)])})")
        values.domain |= {v.name: Domain.OUTPUT for v in results}
