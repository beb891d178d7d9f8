"""Discrete Fourier transforms as unrolled code, one for each size.

Cooley and Tukey 1965 (doi:10.1090/S0025-5718-1965-0178586-1) with radices 2, 3, 4 and 5. A component known
to be zero is None and is skipped; for real data only half of the spectrum is computed.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from cloudgan.gan.kernels.emitter import LANES, Emitter

RADICES = (5, 3, 4, 2)
_ROUNDING = 1e-15  # rounding error of a zero sine or cosine


class Complex:
    """A complex value of the generated program: two vectors, None if known to be zero."""

    def __init__(self, emit: Emitter, re: Any = None, im: Any = None) -> None:
        self._emit, self.re, self.im = emit, re, im

    @classmethod
    def load(cls, emit: Emitter, pointer: Any) -> Complex:
        """Reads a value: its real parts, then its imaginary parts."""
        return cls(emit, emit.load(pointer), emit.load(emit.at(pointer, LANES)))

    def store(self, pointer: Any) -> None:
        """Writes the value as `load` reads it."""
        zero = self._emit.constant(0.0)
        self._emit.store(zero if self.re is None else self.re, pointer)
        self._emit.store(zero if self.im is None else self.im, self._emit.at(pointer, LANES))

    def __add__(self, other: Complex) -> Complex:
        def plus(a: Any, b: Any) -> Any:
            if a is None:
                return b
            return a if b is None else self._emit.add(a, b)

        return Complex(self._emit, plus(self.re, other.re), plus(self.im, other.im))

    def __sub__(self, other: Complex) -> Complex:
        def minus(a: Any, b: Any) -> Any:
            if b is None:
                return a
            return self._negative(b) if a is None else self._emit.subtract(a, b)

        return Complex(self._emit, minus(self.re, other.re), minus(self.im, other.im))

    def __mul__(self, factor: float) -> Complex:
        def times(part: Any) -> Any:
            if part is None:
                return None
            return self._emit.multiply(part, self._emit.constant(factor))

        return Complex(self._emit, times(self.re), times(self.im))

    def conjugate(self) -> Complex:
        """Returns the complex conjugate."""
        return Complex(self._emit, self.re, self._negative(self.im))

    def quarter(self, sign: int) -> Complex:
        """Returns the value times `sign` i."""
        if sign > 0:
            return Complex(self._emit, self._negative(self.im), self.re)
        return Complex(self._emit, self.im, self._negative(self.re))

    def turned(self, angle: float) -> Complex:
        """Returns the value times exp(i angle)."""
        if self.re is None and self.im is None:
            return self
        emit, cosine, sine = self._emit, math.cos(angle), math.sin(angle)
        if abs(sine) < _ROUNDING:
            if cosine > 0:
                return self
            return Complex(emit, self._negative(self.re), self._negative(self.im))
        if abs(cosine) < _ROUNDING:
            return self.quarter(1 if sine > 0 else -1)
        c, s = emit.constant(cosine), emit.constant(sine)
        if self.im is None:
            re, im = emit.multiply(self.re, c), emit.multiply(self.re, s)
        elif self.re is None:
            re, im = emit.negative(emit.multiply(self.im, s)), emit.multiply(self.im, c)
        else:
            re = emit.subtract(emit.multiply(self.re, c), emit.multiply(self.im, s))
            im = emit.add(emit.multiply(self.re, s), emit.multiply(self.im, c))
        return Complex(emit, re, im)

    def _negative(self, part: Any) -> Any:
        return None if part is None else self._emit.negative(part)


def is_smooth(size: int) -> bool:
    """Whether `size` has only the factors 2, 3 and 5."""
    for radix in (2, 3, 5):
        while size % radix == 0:
            size //= radix
    return size == 1


def smooth_size(least: int) -> int:
    """Returns the smallest smooth size from `least` on."""
    return next(size for size in itertools.count(least) if is_smooth(size))


def transform(values: list[Complex], sign: int) -> list[Complex]:
    """sum_j values[j] exp(sign 2 pi i j k / n) for all k."""
    if len(values) == 1:
        return values
    radix = _radix(len(values))
    parts = [transform(values[first::radix], sign) for first in range(radix)]
    found = _combined(parts, len(values), sign)
    return [found[k] for k in range(len(values))]


def transform_of_real(values: list[Complex], sign: int) -> list[Complex]:
    """Like `transform` for real values: k from 0 to n // 2 only."""
    size = len(values)
    if size == 1:
        return values
    radix = _radix(size)
    parts = [transform_of_real(values[first::radix], sign) for first in range(radix)]
    found = _combined(parts, size, sign)
    return [found[k] if k in found else found[size - k].conjugate() for k in range(size // 2 + 1)]


def transform_to_real(half: list[Complex], size: int, sign: int) -> list[Complex]:
    """Real transform of the whole spectrum of which `half` is k = 0 ... n // 2."""
    if size == 1:
        return half[:1]
    radix = _radix(size)
    inner = size // radix
    parts: list[list[Complex]] = [[] for _ in range(radix)]
    for k in range(inner // 2 + 1):
        places = [k + inner * j for j in range(radix)]
        column = [half[at] if at <= size // 2 else half[size - at].conjugate() for at in places]
        for r, value in enumerate(_butterfly(column, sign)):
            parts[r].append(_twiddled(value, r * k, size, sign))
    result = half[:1] * size
    for r in range(radix):
        result[r::radix] = transform_to_real(parts[r], inner, sign)
    return result


def _radix(size: int) -> int:
    return next(radix for radix in RADICES if size % radix == 0)


def _combined(parts: list[list[Complex]], size: int, sign: int) -> dict[int, Complex]:
    """Results that follow from the transforms of every radix-th value, by k."""
    inner, found = size // len(parts), {}
    for k in range(len(parts[0])):
        twiddled = [_twiddled(part[k], r * k, size, sign) for r, part in enumerate(parts)]
        for j, value in enumerate(_butterfly(twiddled, sign)):
            found[k + inner * j] = value
    return found


def _twiddled(value: Complex, steps: int, size: int, sign: int) -> Complex:
    """Value * exp(sign 2 pi i steps / size)."""
    steps %= size
    return value.turned(sign * 2 * math.pi * steps / size) if steps else value


def _butterfly(x: list[Complex], sign: int) -> list[Complex]:
    """Transform of 2, 3, 4 or 5 values."""
    match len(x):
        case 2:
            return [x[0] + x[1], x[0] - x[1]]
        case 3:
            both = x[1] + x[2]
            middle = x[0] + both * -0.5
            side = ((x[1] - x[2]) * (sign * math.sqrt(0.75))).quarter(1)
            return [x[0] + both, middle + side, middle - side]
        case 4:
            even, odd = x[0] + x[2], x[1] + x[3]
            low, high = x[0] - x[2], x[1] - x[3]
            side = high.quarter(sign)
            return [even + odd, low + side, even - odd, low - side]
    cosines = [math.cos(2 * math.pi * k / 5) for k in (1, 2)]
    sines = [sign * math.sin(2 * math.pi * k / 5) for k in (1, 2)]
    outer, inner = x[1] + x[4], x[2] + x[3]
    outer_gap, inner_gap = x[1] - x[4], x[2] - x[3]
    first = x[0] + (outer + inner)
    pairs = []
    for a, b, turn in ((0, 1, 1), (1, 0, -1)):
        middle = x[0] + (outer * cosines[a] + inner * cosines[b])
        side = (outer_gap * sines[a] + inner_gap * (turn * sines[b])).quarter(1)
        pairs.append((middle + side, middle - side))
    return [first, pairs[0][0], pairs[1][0], pairs[1][1], pairs[0][1]]
