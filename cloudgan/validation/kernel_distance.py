"""KPD: the kernel distance of two samples' features (arXiv:2211.10295)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MOST = 3000
"""Showers of each sample that are looked at: work and memory grow with their square."""

GROUPS = 10
"""Of the jackknife: each is left out once."""

_DEGREE = 4


class Estimate(NamedTuple):
    """A number and its standard error."""

    value: float
    error: float


def kpd(ours: Floats, theirs: Floats, *, seed: int) -> Estimate:
    """The squared maximum mean discrepancy under the kernel (x.y / d + 1)^4, without bias.

    The mean of k(x, x') plus that of k(y, y') minus twice that of k(x, y) over different showers
    (Gretton et al., JMLR 13 (2012) 723, eq. 3); it can be negative. Its error is the jackknife's.

    Args:
        ours: (N, d), scaled.
        theirs: (M, d), scaled.
        seed: Of the choice where there are more than `MOST`.
    """
    random = np.random.default_rng(seed)
    x, y = (_some(sample, random) for sample in (ours, theirs))
    sums = {"xx": _sums(x, x), "yy": _sums(y, y), "xy": _sums(x, y)}
    sizes = [np.array([len(part) for part in np.array_split(s, GROUPS)]) for s in (x, y)]
    every = np.ones(GROUPS, np.bool_)
    whole = _discrepancy(sums, sizes, every)
    without = [_discrepancy(sums, sizes, every & (np.arange(GROUPS) != g)) for g in range(GROUPS)]
    scatter = np.sum((np.array(without) - np.mean(without)) ** 2)
    return Estimate(whole, float(np.sqrt((GROUPS - 1) / GROUPS * scatter)))


def _some(sample: Floats, random: np.random.Generator) -> Floats:
    return sample[random.permutation(len(sample))[:MOST]]


def _sums(x: Floats, y: Floats) -> Floats:
    """Sums of the kernel over groups, (GROUPS, GROUPS); a shower with itself is left out."""
    same = x is y
    found = np.empty((GROUPS, GROUPS))
    columns = np.cumsum([0] + [len(part) for part in np.array_split(y, GROUPS)])[:-1]
    for row, part in enumerate(np.array_split(x, GROUPS)):
        kernel = (part @ y.T / x.shape[1] + 1.0) ** _DEGREE
        found[row] = np.add.reduceat(kernel.sum(0), columns)
        if same:
            found[row, row] -= (
                (np.einsum("nd,nd->n", part, part) / x.shape[1] + 1.0) ** _DEGREE
            ).sum()
    return found


def _discrepancy(
    sums: dict[str, Floats], sizes: list[NDArray[np.int64]], kept: NDArray[np.bool_]
) -> float:
    total = {name: float(found[np.ix_(kept, kept)].sum()) for name, found in sums.items()}
    n, m = (int(size[kept].sum()) for size in sizes)
    return total["xx"] / (n * (n - 1)) + total["yy"] / (m * (m - 1)) - 2 * total["xy"] / (n * m)
