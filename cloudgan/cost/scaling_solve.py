"""Least squares of a few numbers, by hand: a laptop without NumPy and SciPy predicts as well.

SciPy takes longer to import than all predictions of a command take to make.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    Vector = Sequence[float]

_DEPENDENT = 1e-12  # of a column's length, what is left of it beside the others
_SOFT = 0.01  # residuals beyond this count by their size, not its square
_ROUNDS = 2000
_SETTLED = 1e-10


class Solved(NamedTuple):
    """Coefficients, and the inverse of the triangle R of the columns' QR decomposition."""

    coefficients: tuple[float, ...]
    inverse: tuple[tuple[float, ...], ...]

    def leverage(self, row: Vector) -> float:
        """Returns x (X'X)^-1 x' of a row x."""
        parts = (
            math.fsum(x * r for x, r in zip(row, column, strict=True)) for column in self.inverse
        )
        return math.fsum(part * part for part in parts)


def solve(columns: Sequence[Vector], target: Vector) -> Solved | None:
    """Least squares by modified Gram-Schmidt; None where the columns depend on each other."""
    found: list[list[float]] = []  # orthonormal columns
    mixed: list[list[float]] = []  # how each is made of the given ones: the columns of R^-1
    for number, column in enumerate(columns):
        rest, mix = list(column), [0.0] * len(columns)
        mix[number] = 1.0
        length = math.hypot(*rest)
        for unit, its_mix in zip(found, mixed, strict=True):
            share = _dot(unit, rest)
            rest = [a - share * b for a, b in zip(rest, unit, strict=True)]
            mix = [a - share * b for a, b in zip(mix, its_mix, strict=True)]
        left = math.hypot(*rest)
        if left <= _DEPENDENT * length:
            return None
        found.append([a / left for a in rest])
        mixed.append([a / left for a in mix])
    remainder, coefficients = list(target), [0.0] * len(columns)
    for unit, its_mix in zip(found, mixed, strict=True):
        share = _dot(unit, remainder)
        remainder = [a - share * b for a, b in zip(remainder, unit, strict=True)]
        coefficients = [a + share * b for a, b in zip(coefficients, its_mix, strict=True)]
    return Solved(tuple(coefficients), tuple(map(tuple, mixed)))


def solve_non_negative(columns: Sequence[Vector], target: Vector) -> tuple[float, ...]:
    """Least squares with no coefficient below zero: the best of all choices of columns.

    With three columns there are seven choices; the solution is the free one of its own choice.
    """
    best, least = (0.0,) * len(columns), math.inf
    for size in range(1, len(columns) + 1):
        for chosen in itertools.combinations(range(len(columns)), size):
            solved = solve([columns[one] for one in chosen], target)
            if solved is None or min(solved.coefficients) < 0:
                continue
            full = [0.0] * len(columns)
            for one, value in zip(chosen, solved.coefficients, strict=True):
                full[one] = value
            squares = math.fsum(r * r for r in residuals(columns, target, full))
            if squares < least:
                best, least = tuple(full), squares
    return best


def solve_robustly(columns: Sequence[Vector], target: Vector) -> tuple[float, ...]:
    """Minimises the soft-L1 loss sum of 2 (sqrt(1 + (r/1 %)^2) - 1), no coefficient below zero.

    The loss is convex and each round of reweighted least squares lowers it (Huber and Ronchetti,
    Robust Statistics, doi 10.1002/9780470434697, 7.8).
    """
    now = solve_non_negative(columns, target)
    for _ in range(_ROUNDS):
        weights = [(1 + (r / _SOFT) ** 2) ** -0.25 for r in residuals(columns, target, now)]
        last, now = (
            now,
            solve_non_negative(
                [_times(column, weights) for column in columns], _times(target, weights)
            ),
        )
        if all(abs(a - b) <= _SETTLED * max(now) for a, b in zip(now, last, strict=True)):
            break
    return now


def residuals(columns: Sequence[Vector], target: Vector, coefficients: Vector) -> list[float]:
    """Returns what the columns, so mixed, leave of the target."""
    rows = zip(*columns, strict=True)
    return [one - _dot(row, coefficients) for row, one in zip(rows, target, strict=True)]


def t_quantile(degrees: int, inside: float = 0.9) -> float:
    """Returns t so that Student's variable is between -t and t with probability `inside`.

    For whole degrees of freedom the probability is a finite sum (Abramowitz and Stegun, Handbook
    of Mathematical Functions, 26.7.3 and 26.7.4).
    """
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < inside else (low, middle)
    return math.sqrt(degrees) * math.tan(low)


def _within(angle: float, degrees: int) -> float:
    square, odd = math.cos(angle) ** 2, degrees % 2
    term, total = (math.cos(angle) if odd else 1.0), 0.0
    for power in range(1 + odd, degrees, 2):
        total += term
        term *= square * power / (power + 1)
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total


def _dot(left: Vector, right: Vector) -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))


def _times(left: Vector, right: Vector) -> list[float]:
    return [a * b for a, b in zip(left, right, strict=True)]
