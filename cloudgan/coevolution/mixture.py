"""The mixture of a neighbourhood's generators, and the evolution of its weights. Pure NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloudgan.schema.coevolution import SampleQuality


@dataclass(frozen=True)
class Mixture:
    """Shares of the generators of a cell and its neighbours in what the cell generates.

    Members are cells, the cell itself first; weights are not negative, with sum 1.
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

    def chosen(self, count: int, random: np.random.Generator) -> NDArray[np.intp]:
        """Returns which of the members gives each of `count` samples, by its place in `members`."""
        return assign(np.array(self.weights), count, random)

    def samples(self, pools: Mapping[int, Any], random: np.random.Generator) -> Any:
        """Returns samples of the mixture: sample n is sample n of one of the members."""
        arrays = [pools[cell] for cell in self.members]
        count = len(arrays[0])
        chosen = self.chosen(count, random)
        found = np.empty_like(arrays[0])
        for number, array in enumerate(arrays):
            rows = chosen == number
            found[rows] = array[rows]
        return found


def evolve_weights(
    mixture: Mixture,
    measured: Callable[[int, NDArray[np.intp]], NDArray[Any]],
    quality: Callable[[NDArray[Any]], SampleQuality],
    *,
    count: int,
    sigma: float,
    mutation: np.random.Generator,
    sampling: Callable[[], np.random.Generator],
) -> tuple[Mixture, SampleQuality]:
    """Makes one step of a (1+1) evolution strategy: keeps the better of two mixtures.

    Both have the same samples in the same random order, so their scores differ by the weights only. Only
    samples that one of them has are generated and measured, each once.

    `measured` returns the measures of samples of a member, by their numbers; the score of `quality` is
    minimised. `count` is of samples of each mixture; `sampling` returns the random numbers of the
    assignment, the same ones each time.
    """
    evolves = len(mixture.members) > 1 and sigma > 0
    mixtures = [mixture, mixture.mutated(sigma, mutation)] if evolves else [mixture]
    chosen = np.stack([each.chosen(count, sampling()) for each in mixtures])
    measures: NDArray[Any] | None = None
    for number, cell in enumerate(mixture.members):
        own = chosen == number
        rows = np.flatnonzero(own.any(0))
        if not len(rows):
            continue
        found = measured(cell, rows)
        if measures is None:
            measures = np.empty((*chosen.shape, *found.shape[1:]), found.dtype)
        for of_mixture, is_own in zip(measures, own, strict=True):
            of_mixture[is_own] = found[is_own[rows]]
    qualities = [quality(each) for each in ([] if measures is None else measures)]
    best = min(range(len(mixtures)), key=lambda place: qualities[place].score)
    return mixtures[best], qualities[best]


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
