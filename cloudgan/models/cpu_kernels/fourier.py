"""Discrete Fourier transforms as unrolled code, one for each size.

Cooley and Tukey 1965 (doi:10.1090/S0025-5718-1965-0178586-1) with radices 2, 3, 4 and 5. A component known
to be zero is None and is skipped; for real data only half of the spectrum is computed.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cloudgan.models.cpu_kernels.emitter import Emitter

RADICES = (5, 3, 4, 2)
_ROUNDING = 1e-15  # rounding error of a zero sine or cosine


@dataclass(frozen=True)
class Complex:
    """A complex value of the generated program: two vectors, None if known to be zero."""

    re: Any = None
    im: Any = None

    def conjugate(self, emit: Emitter) -> Complex:
        """Returns the complex conjugate."""
        return Complex(self.re, None if self.im is None else emit.negative(self.im))


def is_smooth(size: int) -> bool:
    """Whether `size` has only the factors 2, 3 and 5."""
    for radix in (2, 3, 5):
        while size % radix == 0:
            size //= radix
    return size == 1


def smooth_size(least: int) -> int:
    """Returns the smallest smooth size from `least` on."""
    return next(size for size in itertools.count(least) if is_smooth(size))


class Fourier:
    """Emits transforms into a function; `sign` is that of the exponent."""

    def __init__(self, emit: Emitter, sign: int) -> None:
        self._emit, self._sign = emit, sign

    def complex(self, values: list[Complex]) -> list[Complex]:
        """sum_j values[j] exp(sign 2 pi i j k / n) for all k."""
        size = len(values)
        if size == 1:
            return values
        parts = [self.complex(some) for some in _decimated(values)]
        found = self._combined(parts, len(parts[0]), size)
        return [found[k] for k in range(size)]

    def of_real(self, values: list[Complex]) -> list[Complex]:
        """Like `complex` for real values: k from 0 to n // 2 only."""
        size = len(values)
        if size == 1:
            return values
        parts = [self.of_real(some) for some in _decimated(values)]
        found = self._combined(parts, len(parts[0]), size)
        return [
            found[k] if k in found else found[size - k].conjugate(self._emit)
            for k in range(size // 2 + 1)
        ]

    def _combined(self, parts: list[list[Complex]], count: int, size: int) -> dict[int, Complex]:
        """Results that follow from the first `count` values of each part's transform."""
        inner, found = size // len(parts), {}
        for k in range(count):
            twiddled = [self._twiddled(part[k], r * k, size) for r, part in enumerate(parts)]
            for j, value in enumerate(self._butterfly(twiddled)):
                found[k + inner * j] = value
        return found

    def to_real(self, half: list[Complex], size: int) -> list[Complex]:
        """Real transform of the whole spectrum of which `half` is k = 0 ... n // 2."""
        if size == 1:
            return [Complex(half[0].re)]
        radix = _radix(size)
        inner = size // radix
        parts: list[list[Complex]] = [[] for _ in range(radix)]
        for k in range(inner // 2 + 1):
            column = []
            for j in range(radix):
                at = k + inner * j
                column.append(
                    half[at] if at <= size // 2 else half[size - at].conjugate(self._emit)
                )
            for r, value in enumerate(self._butterfly(column)):
                parts[r].append(self._twiddled(value, r * k, size))
        result: list[Complex] = [Complex()] * size
        for r in range(radix):
            result[r::radix] = self.to_real(parts[r], inner)
        return result

    def _twiddled(self, value: Complex, steps: int, size: int) -> Complex:
        """Value * exp(sign 2 pi i steps / size)."""
        steps %= size
        if steps == 0 or (value.re is None and value.im is None):
            return value
        angle = self._sign * 2 * math.pi * steps / size
        return self._times(value, math.cos(angle), math.sin(angle))

    def _times(self, value: Complex, cosine: float, sine: float) -> Complex:
        emit = self._emit
        if abs(sine) < _ROUNDING:
            return value if cosine > 0 else self._scaled(value, -1.0)
        if abs(cosine) < _ROUNDING:
            return self._quarter(value, 1 if sine > 0 else -1)
        c, s = emit.constant(cosine), emit.constant(sine)
        if value.im is None:
            return Complex(emit.multiply(value.re, c), emit.multiply(value.re, s))
        if value.re is None:
            return Complex(emit.negative(emit.multiply(value.im, s)), emit.multiply(value.im, c))
        return Complex(
            emit.subtract(emit.multiply(value.re, c), emit.multiply(value.im, s)),
            emit.add(emit.multiply(value.re, s), emit.multiply(value.im, c)),
        )

    def _quarter(self, value: Complex, sign: int) -> Complex:
        """Value * (sign i)."""
        if sign > 0:
            return Complex(self._minus(value.im), value.re)
        return Complex(value.im, self._minus(value.re))

    def _minus(self, part: Any) -> Any:
        return None if part is None else self._emit.negative(part)

    def _scaled(self, value: Complex, factor: float) -> Complex:
        def times(part: Any) -> Any:
            if part is None:
                return None
            if factor == -1.0:
                return self._emit.negative(part)
            return self._emit.multiply(part, self._emit.constant(factor))

        return Complex(times(value.re), times(value.im))

    def _sum(self, a: Complex, b: Complex) -> Complex:
        return Complex(self._part_sum(a.re, b.re), self._part_sum(a.im, b.im))

    def _difference(self, a: Complex, b: Complex) -> Complex:
        return Complex(self._part_difference(a.re, b.re), self._part_difference(a.im, b.im))

    def _part_sum(self, a: Any, b: Any) -> Any:
        if a is None:
            return b
        return a if b is None else self._emit.add(a, b)

    def _part_difference(self, a: Any, b: Any) -> Any:
        if b is None:
            return a
        return self._minus(b) if a is None else self._emit.subtract(a, b)

    def _butterfly(self, x: list[Complex]) -> list[Complex]:
        return {2: self._two, 3: self._three, 4: self._four, 5: self._five}[len(x)](x)

    def _two(self, x: list[Complex]) -> list[Complex]:
        return [self._sum(x[0], x[1]), self._difference(x[0], x[1])]

    def _three(self, x: list[Complex]) -> list[Complex]:
        both = self._sum(x[1], x[2])
        middle = self._sum(x[0], self._scaled(both, -0.5))
        apart = self._scaled(self._difference(x[1], x[2]), self._sign * math.sqrt(0.75))
        side = self._quarter(apart, 1)
        return [self._sum(x[0], both), self._sum(middle, side), self._difference(middle, side)]

    def _four(self, x: list[Complex]) -> list[Complex]:
        even, odd = self._sum(x[0], x[2]), self._sum(x[1], x[3])
        low, high = self._difference(x[0], x[2]), self._difference(x[1], x[3])
        side = self._quarter(high, self._sign)
        return [
            self._sum(even, odd),
            self._sum(low, side),
            self._difference(even, odd),
            self._difference(low, side),
        ]

    def _five(self, x: list[Complex]) -> list[Complex]:
        cosines = [math.cos(2 * math.pi * k / 5) for k in (1, 2)]
        sines = [self._sign * math.sin(2 * math.pi * k / 5) for k in (1, 2)]
        outer, inner = self._sum(x[1], x[4]), self._sum(x[2], x[3])
        outer_gap, inner_gap = self._difference(x[1], x[4]), self._difference(x[2], x[3])
        result = [self._sum(x[0], self._sum(outer, inner))]
        pairs = []
        for a, b, sign in ((0, 1, 1), (1, 0, -1)):
            middle = self._sum(
                x[0], self._sum(self._scaled(outer, cosines[a]), self._scaled(inner, cosines[b]))
            )
            gap = self._sum(
                self._scaled(outer_gap, sines[a]), self._scaled(inner_gap, sign * sines[b])
            )
            side = self._quarter(gap, 1)
            pairs.append((self._sum(middle, side), self._difference(middle, side)))
        return [*result, pairs[0][0], pairs[1][0], pairs[1][1], pairs[0][1]]


def _radix(size: int) -> int:
    return next(radix for radix in RADICES if size % radix == 0)


def _decimated(values: list[Complex]) -> list[list[Complex]]:
    """Decimation in time: every radix-th value, from each offset."""
    radix = _radix(len(values))
    return [values[first::radix] for first in range(radix)]
