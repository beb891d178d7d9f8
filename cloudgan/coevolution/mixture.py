"""The mixture of a neighbourhood's generators, and the evolution of its weights. Pure NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from cloudgan.coevolution.task import Quality


@dataclass(frozen=True)
class Mixture:
    """Shares of the generators of a cell and its neighbours in what the cell generates.

    Attributes:
        members: Cells, the cell itself first.
        weights: Of the members; not negative, with sum 1.
    """

    members: tuple[int, ...]
    weights: tuple[float, ...]

    @classmethod
    def uniform(cls, members: tuple[int, ...]) -> Mixture:
        """Returns the mixture with equal weights."""
        return cls(members, (1 / len(members),) * len(members))

    def with_members(self, members: tuple[int, ...]) -> Mixture:
        """Returns a mixture of other members: common ones keep their ratios, new ones get the mean."""
        if members == self.members:
            return self
        known = dict(zip(self.members, self.weights, strict=True))
        kept = [known[cell] for cell in members if cell in known]
        mean = float(np.mean(kept)) if any(kept) else 1.0
        return _normalised(members, np.array([known.get(cell, mean) for cell in members]))

    def mutated(self, sigma: float, random: np.random.Generator) -> Mixture:
        """Returns the mixture with Gaussian noise on its weights."""
        moved = np.array(self.weights) + sigma * random.standard_normal(len(self.weights))
        return _normalised(self.members, np.maximum(moved, 0.0))

    def samples(self, pools: Mapping[int, Any], random: np.random.Generator) -> Any:
        """Returns samples of the mixture: sample n is sample n of one of the members.

        Args:
            pools: Samples (N, ...) of each member.
            random: Draws which member gives which sample.
        """
        arrays = [pools[cell] for cell in self.members]
        count = len(arrays[0])
        chosen = assign(np.array(self.weights), count, random)
        found = np.empty_like(arrays[0])
        for number, array in enumerate(arrays):
            rows = chosen == number
            found[rows] = array[rows]
        return found


def evolve_weights(
    mixture: Mixture,
    pools: Mapping[int, Any],
    quality: Callable[[Any], Quality],
    *,
    sigma: float,
    mutation: np.random.Generator,
    sampling: Callable[[], np.random.Generator],
) -> tuple[Mixture, Quality]:
    """Makes one step of a (1+1) evolution strategy: keeps the better of two mixtures.

    Both are samples of the same pools in the same random order, so their scores differ by the weights
    only.

    Args:
        mixture: Parent.
        pools: Samples of each member.
        quality: Of samples; its score is minimised.
        sigma: Standard deviation of the mutation.
        mutation: Random numbers of the mutation.
        sampling: Returns the random numbers of the assignment, the same ones each time.

    Returns:
        The mixture that is kept, and its quality.
    """
    current = quality(mixture.samples(pools, sampling()))
    if len(mixture.members) == 1 or not sigma:
        return mixture, current
    child = mixture.mutated(sigma, mutation)
    other = quality(child.samples(pools, sampling()))
    return (child, other) if other.score < current.score else (mixture, current)


def assign(
    weights: NDArray[np.float64], count: int, random: np.random.Generator
) -> NDArray[np.intp]:
    """Returns a member for each of `count` samples, in exact proportion to the weights.

    Numbers of samples are rounded by the largest remainder, and their order is permuted.
    """
    exact = np.asarray(weights, float) / np.sum(weights) * count
    numbers = np.floor(exact).astype(np.intp)
    missing = count - int(numbers.sum())
    order = np.argsort(numbers - exact, kind="stable")
    numbers[order[:missing]] += 1
    return random.permutation(np.repeat(np.arange(len(numbers)), numbers))


def _normalised(members: tuple[int, ...], weights: NDArray[np.float64]) -> Mixture:
    total = float(weights.sum())
    if not total > 0:
        return Mixture.uniform(members)
    return Mixture(members, tuple(float(weight) for weight in weights / total))
