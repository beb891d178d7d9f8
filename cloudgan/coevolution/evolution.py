"""Rules of the evolution of a cell: fitness, selection, mutation, replacement, and the mixture. Pure NumPy.

The rules follow Lipizzaner (Schmiedlechner et al. 2018, arXiv:1811.12843) and its MPI version (Perez et
al. 2020, arXiv:2004.04633). All random numbers are functions of seed, cell, iteration and purpose, so
that neither the order of the cells nor the number of processes changes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloudgan.coevolution.task import Draw, Individual
from cloudgan.schema.coevolution import AdversarialLoss, Aggregate, CoevolutionConfig, SampleQuality

Numbers = NDArray[np.float64]

_SMALLEST_RATE = 1e-7
"""A mutation never stops the learning."""


class Purpose(IntEnum):
    """What random numbers are drawn for, so that no two uses share them."""

    INITIAL = 0
    DATA_SHARE = 1
    FITNESS = 2
    TOURNAMENT = 3
    MUTATION = 4
    ADVERSARY = 5
    BATCHES = 6
    MIXTURE = 7
    SCORE = 8
    RESULT = 9


def random_numbers(draw: Draw, *more: int) -> np.random.Generator:
    """Returns the generator of random numbers of a position (Philox, doi:10.1145/2063384.2063405)."""
    position = tuple(map(int, (*draw, *more)))
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(position)))


def aggregate(losses: Numbers, how: Aggregate) -> Numbers:
    """Returns the fitness of N individuals from their losses against M adversaries, (N, M) to (N,).

    Lower is better. A loss that is not finite counts as infinite: such an individual is never selected.
    """
    finite = np.where(np.isfinite(losses), losses, np.inf)
    if how == "mean":
        return np.asarray(finite.mean(1))
    return np.asarray(finite.max(1) if how == "worst" else finite.min(1))


def tournament(fitness: Numbers, size: int, count: int, random: np.random.Generator) -> list[int]:
    """Returns `count` winners: each is the fittest of `size` individuals drawn without replacement."""
    winners = []
    for _ in range(count):
        drawn = random.choice(len(fitness), size, replace=False)
        winners.append(int(drawn[np.argmin(fitness[drawn])]))
    return winners


def mutate(
    individual: Individual, config: CoevolutionConfig, random: np.random.Generator
) -> Individual:
    """Returns an individual whose learning rate is moved by a Gaussian, and whose loss is drawn.

    A generator draws one of `losses` (Mustangs, doi:10.1145/3321707.3321860). A discriminator has that of
    the generators it meets, see `with_loss`.
    """
    mutates = random.random() < config.rate_probability
    moved = individual.rate + config.rate_sigma * random.standard_normal()
    loss = config.losses[int(random.integers(len(config.losses)))]
    rate = max(_SMALLEST_RATE, moved) if mutates else individual.rate
    return with_loss(replace(individual, rate=float(rate)), loss)


def with_loss(individual: Individual, loss: AdversarialLoss) -> Individual:
    """Returns the individual with a loss; a discriminator has cross-entropy for the heuristic."""
    heuristic = individual.kind == "discriminator" and loss == "heuristic"
    return replace(individual, loss="bce" if heuristic else loss)


def replace_worst(
    old: Sequence[Individual], new: Sequence[Individual], replacements: int
) -> tuple[tuple[Individual, ...], int]:
    """Replaces the worst individuals of a population by better new ones.

    The i-th best new one replaces the i-th worst old one, for i below `replacements`, if it is better.

    They are in the order of fitness, the best one first; also returns how many are new.
    """
    population = sorted(old, key=_fitness)
    entered = 0
    for newcomer in sorted(new, key=_fitness)[:replacements]:
        place = len(population) - 1 - entered
        if place < 0 or not newcomer.fitness < population[place].fitness:
            break
        population[place] = newcomer
        entered += 1
    return tuple(sorted(population, key=_fitness)), entered


def _fitness(individual: Individual) -> float:
    return individual.fitness


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
