"""Emits LLVM intermediate code: loops, and arithmetic on vectors of eight float32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

LANES = 8
"""Lanes of a vector: one register of AVX2, half of AVX-512, two of NEON."""

INDEX = ir.IntType(64)
FLOAT = ir.FloatType()
VECTOR = ir.VectorType(FLOAT, LANES)
_INT = ir.IntType(32)
_HALF = ir.IntType(16)
_FUSE = ("contract",)  # allows fused multiply-add


class Emitter:
    """Builder of one function whose arguments point to float32 or 16-bit integers.

    Addresses are counted in elements from a pointer.
    """

    def __init__(
        self,
        module: ir.Module,
        name: str,
        arguments: tuple[str, ...],
        uniform: tuple[str, ...] = (),
    ) -> None:
        kinds = [(_HALF if each in uniform else FLOAT).as_pointer() for each in arguments]
        kind = ir.FunctionType(ir.VoidType(), kinds)
        self._function = ir.Function(module, kind, name)
        for argument in self._function.args:
            argument.add_attribute("noalias")
        self._builder = ir.IRBuilder(self._function.append_basic_block())
        self.pointers = dict(zip(arguments, self._function.args, strict=True))

    def end(self) -> None:
        """Terminates the function."""
        self._builder.ret_void()

    @contextmanager
    def loop(self, count: int, step: int = 1) -> Iterator[Any]:
        """Repeats the body for 0, step, ... below `count`; yields the index."""
        with self.summing(count, [], step) as (index, _):
            yield index

    @contextmanager
    def summing(
        self, count: int, sums: list[Any], step: int = 1
    ) -> Iterator[tuple[Any, list[Any]]]:
        """Loop with carried vectors: yields the index and `sums`, to be updated in place."""
        builder = self._builder
        before = builder.block
        body = builder.append_basic_block()
        builder.branch(body)
        builder.position_at_end(body)
        index = builder.phi(INDEX)
        index.add_incoming(INDEX(0), before)
        carried = [builder.phi(each.type) for each in sums]
        for phi, begin in zip(carried, sums, strict=True):
            phi.add_incoming(begin, before)
        sums[:] = carried
        yield index, sums
        following = builder.add(index, INDEX(step), flags=("nsw",))
        index.add_incoming(following, builder.block)
        for phi, end in zip(carried, sums, strict=True):
            phi.add_incoming(end, builder.block)
        after = builder.append_basic_block()
        builder.cbranch(builder.icmp_signed("<", following, INDEX(count)), body, after)
        builder.position_at_end(after)

    def at(self, pointer: Any, *terms: tuple[Any, int] | int) -> Any:
        """Returns `pointer` offset by the sum of index * stride and of integers."""
        fixed = 0
        for term in terms:
            if isinstance(term, int):
                fixed += term
                continue
            index, stride = term
            offset = self._builder.mul(index, INDEX(stride), flags=("nsw",))
            pointer = self._builder.gep(pointer, [offset], inbounds=True)
        return self._builder.gep(pointer, [INDEX(fixed)], inbounds=True) if fixed else pointer

    def load(self, pointer: Any, lanes: int = LANES) -> Any:
        """Returns the vector at `pointer`; missing lanes are zero."""
        pieces, at = [], 0
        for size in _pieces(lanes):
            kind = ir.VectorType(FLOAT, size).as_pointer()
            piece = self._builder.load(self._builder.bitcast(self.at(pointer, at), kind), align=4)
            pieces.append(self._widened(piece, size))
            at += size
        return self._joined(pieces, _pieces(lanes))

    def store(self, vector: Any, pointer: Any, lanes: int = LANES) -> None:
        """Writes the first `lanes` of a vector."""
        at = 0
        for size in _pieces(lanes):
            kind = ir.VectorType(FLOAT, size)
            mask = ir.Constant(ir.VectorType(_INT, size), [_INT(at + lane) for lane in range(size)])
            piece = vector if size == LANES else self._builder.shuffle_vector(vector, vector, mask)
            target = self._builder.bitcast(self.at(pointer, at), kind.as_pointer())
            self._builder.store(piece, target, align=4)
            at += size

    def broadcast(self, pointer: Any) -> Any:
        """Returns the number at `pointer` in all lanes."""
        number = self._builder.load(pointer, align=4)
        one = self._builder.insert_element(ir.Constant(VECTOR, ir.Undefined), number, _INT(0))
        mask = ir.Constant(ir.VectorType(_INT, LANES), [_INT(0)] * LANES)
        return self._builder.shuffle_vector(one, one, mask)

    def constant(self, number: float) -> Any:
        """Returns `number` in all lanes."""
        return ir.Constant(VECTOR, [FLOAT(number)] * LANES)

    def add(self, a: Any, b: Any) -> Any:
        """Returns a + b."""
        return self._builder.fadd(a, b, flags=_FUSE)

    def subtract(self, a: Any, b: Any) -> Any:
        """Returns a - b."""
        return self._builder.fsub(a, b, flags=_FUSE)

    def multiply(self, a: Any, b: Any) -> Any:
        """Returns a * b."""
        return self._builder.fmul(a, b, flags=_FUSE)

    def negative(self, a: Any) -> Any:
        """Returns -a."""
        return self._builder.fneg(a)

    def where_positive(self, condition: Any, a: Any, b: Any) -> Any:
        """Returns a in the lanes where `condition` is above zero, else b."""
        above = self._builder.fcmp_ordered(">", condition, self.constant(0.0))
        return self._builder.select(above, a, b)

    def kept(self, vector: Any, uniform: Any, least: int) -> Any:
        """Returns `vector`, zero in the lanes whose unsigned 16-bit number is below `least`."""
        kind = ir.VectorType(_HALF, LANES)
        words = self._builder.load(self._builder.bitcast(uniform, kind.as_pointer()), align=2)
        limit = ir.Constant(kind, [_HALF(least)] * LANES)
        keep = self._builder.icmp_unsigned(">=", words, limit)
        return self._builder.select(keep, vector, self.constant(0.0))

    def _widened(self, piece: Any, size: int) -> Any:
        if size == LANES:
            return piece
        zero = ir.Constant(piece.type, [FLOAT(0)] * size)
        lanes = [_INT(min(size, lane)) for lane in range(LANES)]
        return self._builder.shuffle_vector(
            piece, zero, ir.Constant(ir.VectorType(_INT, LANES), lanes)
        )

    def _joined(self, pieces: list[Any], sizes: list[int]) -> Any:
        vector, filled = pieces[0], sizes[0]
        for piece, size in zip(pieces[1:], sizes[1:], strict=True):
            lanes = [
                _INT(LANES + lane - filled if filled <= lane < filled + size else lane)
                for lane in range(LANES)
            ]
            mask = ir.Constant(ir.VectorType(_INT, LANES), lanes)
            vector = self._builder.shuffle_vector(vector, piece, mask)
            filled += size
        return vector


def _pieces(lanes: int) -> list[int]:
    """Splits a number of lanes into powers of two, the largest first."""
    return [size for size in (8, 4, 2, 1) if lanes & size]
