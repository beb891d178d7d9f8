"""Rules of the evolution of a cell: fitness, selection, mutation, replacement. Pure NumPy.

The rules follow Lipizzaner (Schmiedlechner et al. 2018, arXiv:1811.12843) and its MPI version (Perez et
al. 2020, arXiv:2004.04633). All random numbers are functions of seed, cell, iteration and purpose, so
that neither the order of the cells nor the number of processes changes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from cloudgan.coevolution.task import Draw, Individual
from cloudgan.schema.coevolution import AdversarialLoss, Aggregate, CoevolutionConfig

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
