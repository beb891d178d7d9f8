"""Builds an ONNX graph with the operators and functions of NumPy.

A `Value` is a tensor of the graph; `Graph` has the functions that `cloudgan.models.shower_frame` expects of a
`library`, so that one formula serves NumPy, Keras and ONNX. Shapes have None for the number of showers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int | None, ...]

OPSET = 15
"""Operator set of ONNX 1.10 (2021): ONNX Runtime 1.10 and later run it, and Geant4's Par04 names 1.11."""
IR_VERSION = 8
"""File format of ONNX 1.10."""

_TYPES = {
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.int32): TensorProto.INT32,
    np.dtype(np.int64): TensorProto.INT64,
    np.dtype(np.bool_): TensorProto.BOOL,
}


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of a graph, with its operators.

    Attributes:
        graph: Its graph.
        name: Its name in the graph.
        shape: Its shape; None is the number of showers.
        dtype: Its type.
    """

    graph: Graph
    name: str
    shape: Shape
    dtype: np.dtype[Any]

    def __add__(self, other: Any) -> Value:
        return self.graph.elementwise("Add", self, other)

    def __sub__(self, other: Any) -> Value:
        return self.graph.elementwise("Sub", self, other)

    def __mul__(self, other: Any) -> Value:
        return self.graph.elementwise("Mul", self, other)

    def __truediv__(self, other: Any) -> Value:
        return self.graph.elementwise("Div", self, other)

    def __pow__(self, exponent: float) -> Value:
        if exponent == 2:  # noqa: PLR2004
            return self * self
        return self.graph.elementwise("Pow", self, exponent)

    def __radd__(self, other: Any) -> Value:
        return self.graph.elementwise("Add", other, self)

    def __rsub__(self, other: Any) -> Value:
        return self.graph.elementwise("Sub", other, self)

    def __rmul__(self, other: Any) -> Value:
        return self.graph.elementwise("Mul", other, self)

    def __rtruediv__(self, other: Any) -> Value:
        return self.graph.elementwise("Div", other, self)

    def __getitem__(self, key: Any) -> Value:
        """Slices and new axes; an integer is no index here, because it would drop an axis."""
        return self.graph.index(self, key if isinstance(key, tuple) else (key,))


class Graph:
    """An ONNX graph that grows with each call."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._inputs: list[Any] = []
        self._constants: dict[tuple[bytes, Shape, str], Value] = {}
        self._initializers: list[Any] = []

    def input(self, name: str, shape: Shape) -> Value:
        """Adds an input of 32-bit floats."""
        self._inputs.append(_info(name, shape))
        return Value(self, name, shape, np.dtype(np.float32))

    def constant(self, values: Any, dtype: DTypeLike = np.float32) -> Value:
        """Adds numbers; equal ones are stored once."""
        array = np.ascontiguousarray(values, dtype).reshape(np.shape(values))
        key = (array.tobytes(), array.shape, array.dtype.name)
        if key not in self._constants:
            name = f"constant_{len(self._constants)}"
            self._initializers.append(numpy_helper.from_array(array, name))
            self._constants[key] = Value(self, name, array.shape, array.dtype)
        return self._constants[key]

    def node(
        self,
        operator: str,
        inputs: Sequence[Value],
        shape: Shape,
        dtype: Any = None,
        **options: Any,
    ) -> Value:
        """Adds an operator with one output of a known shape; its type is that of the first input."""
        name = f"{operator.lower()}_{len(self._nodes)}"
        self._nodes.append(
            helper.make_node(operator, [each.name for each in inputs], [name], name, **options)
        )
        return Value(self, name, shape, inputs[0].dtype if dtype is None else np.dtype(dtype))

    def elementwise(self, operator: str, *operands: Any, dtype: Any = None) -> Value:
        """Adds an operator that broadcasts its operands; numbers take the type of the tensors."""
        known = next(each.dtype for each in reversed(operands) if isinstance(each, Value))
        values = [
            each if isinstance(each, Value) else self.constant(each, known) for each in operands
        ]
        return self.node(operator, values, _broadcast([each.shape for each in values]), dtype)

    def index(self, value: Value, key: tuple[Any, ...]) -> Value:
        """Applies slices, `...` and None."""
        missing = len(value.shape) - sum(each is not None and each is not ... for each in key)
        at = next((number for number, each in enumerate(key) if each is ...), len(key))
        key = (*key[:at], *[slice(None)] * missing, *key[at + 1 :])
        cuts, new, axis = [], [], 0
        shape: list[int | None] = []
        for place, each in enumerate(key):
            if each is None:
                new.append(place)
                continue
            if each != slice(None):
                first, last, _ = each.indices(_known(value.shape[axis]))
                cuts.append((first, last, axis))
                shape.append(last - first)
            else:
                shape.append(value.shape[axis])
            axis += 1
        if cuts:
            bounds = [self.constant(each, np.int64) for each in zip(*cuts, strict=True)]
            value = self.node("Slice", [value, *bounds], tuple(shape))
        if new:
            for place in new:
                shape.insert(place, 1)
            value = self.node("Unsqueeze", [value, self.constant(new, np.int64)], tuple(shape))
        return value

    def minimum(self, first: Any, second: Any) -> Value:
        """Returns the smaller of two."""
        return self.elementwise("Min", first, second)

    def maximum(self, first: Any, second: Any) -> Value:
        """Returns the larger of two."""
        return self.elementwise("Max", first, second)

    def clip(self, value: Value, low: float, high: float) -> Value:
        """Returns the values within limits."""
        return self.node("Clip", [value, self.constant(low), self.constant(high)], value.shape)

    def unary(self, operator: str, value: Value) -> Value:
        """Applies a function of one variable."""
        return self.node(operator, [value], value.shape)

    def exp(self, value: Value) -> Value:
        """Exponential."""
        return self.unary("Exp", value)

    def log(self, value: Value) -> Value:
        """Natural logarithm."""
        return self.unary("Log", value)

    def abs(self, value: Value) -> Value:
        """Magnitude."""
        return self.unary("Abs", value)

    def floor(self, value: Value) -> Value:
        """Largest whole number below."""
        return self.unary("Floor", value)

    def relu(self, value: Value) -> Value:
        """Zero for negative values."""
        return self.unary("Relu", value)

    def cast(self, value: Value, dtype: DTypeLike) -> Value:
        """Converts, towards zero."""
        to = _TYPES[np.dtype(dtype)]
        return self.node("Cast", [value], value.shape, dtype, to=to)

    def ones_like(self, value: Value) -> Value:
        """Ones in the shape of `value`, whose number of showers is not known here."""
        return value * 0.0 + 1.0

    def arange(self, count: int, dtype: DTypeLike = np.float32) -> Value:
        """Numbers from 0."""
        return self.constant(np.arange(count), dtype)

    def concatenate(self, values: Sequence[Value], axis: int) -> Value:
        """Joins tensors along an axis."""
        joined = sum(_known(each.shape[axis]) for each in values)
        first = values[0].shape
        shape = (*first[:axis], joined, *first[axis + 1 :])
        return self.node("Concat", values, shape, axis=axis)

    def sum(self, value: Value, axis: int | tuple[int, ...], *, keepdims: bool = False) -> Value:
        """Sums over axes."""
        rank = len(value.shape)
        axes = sorted(each % rank for each in (axis if isinstance(axis, tuple) else (axis,)))
        shape: Shape = tuple(
            1 if number in axes else size
            for number, size in enumerate(value.shape)
            if keepdims or number not in axes
        )
        places = self.constant(axes, np.int64)
        return self.node("ReduceSum", [value, places], shape, keepdims=int(keepdims))

    def where(self, condition: Value, first: Any, second: Any) -> Value:
        """Chooses by a condition."""
        first, second = (
            each if isinstance(each, Value) else self.constant(each) for each in (first, second)
        )
        shape = _broadcast([condition.shape, first.shape, second.shape])
        return self.node("Where", [condition, first, second], shape, first.dtype)

    def greater(self, value: Value, limit: float) -> Value:
        """Whether values are above a limit."""
        return self.elementwise("Greater", value, limit, dtype=np.bool_)

    def less(self, value: Value, limit: float) -> Value:
        """Whether values are below a limit."""
        return self.elementwise("Less", value, limit, dtype=np.bool_)

    def take(self, table: Value, rows: Value) -> Value:
        """Returns the rows of a table, (N, ...), by their numbers."""
        return self.node("Gather", [table, rows], (*rows.shape, *table.shape[1:]), axis=0)

    def matmul(self, first: Value, second: Value) -> Value:
        """Product of matrices (..., N, M) and (..., M, K)."""
        return self.node("MatMul", [first, second], (*first.shape[:-1], second.shape[-1]))

    def without_last(self, value: Value) -> Value:
        """Drops the last axis, which has one entry."""
        return self.node("Squeeze", [value, self.constant([-1], np.int64)], value.shape[:-1])

    def absent(self) -> Value:
        """An optional input that is not given."""
        return Value(self, "", (), np.dtype(np.float32))

    def reshape(self, value: Value, shape: Shape) -> Value:
        """Reshapes; None is the number of showers."""
        sizes = self.constant([-1 if each is None else each for each in shape], np.int64)
        return self.node("Reshape", [value, sizes], shape)

    def transpose(self, value: Value, axes: Sequence[int]) -> Value:
        """Permutes the axes."""
        shape = tuple(value.shape[axis] for axis in axes)
        return self.node("Transpose", [value], shape, perm=list(axes))

    def model(self, name: str, output: Value, output_name: str, facts: dict[str, str]) -> Any:
        """Returns the model with one output, named `output_name`, and `facts` as its metadata."""
        self._nodes.append(helper.make_node("Identity", [output.name], [output_name], output_name))
        graph = helper.make_graph(
            self._nodes, name, self._inputs, [_info(output_name, output.shape)], self._initializers
        )
        made = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="cloudgan"
        )
        made.ir_version = IR_VERSION
        helper.set_model_props(made, facts)
        return made


def _info(name: str, shape: Shape) -> Any:
    sizes = ["batch" if each is None else each for each in shape]
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)


def _known(size: int | None) -> int:
    if size is None:
        raise ValueError("the number of showers is not known in a graph")
    return size


def _broadcast(shapes: Sequence[Shape]) -> Shape:
    rows = zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1)
    return tuple(_common(sizes) for sizes in rows)[::-1]


def _common(sizes: tuple[int | None, ...]) -> int | None:
    if None in sizes:
        return None
    return max(size for size in sizes if size is not None)
