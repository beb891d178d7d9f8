"""The mixture of a finished grid beside its best member, equal weights, and an ensemble of all cells.

An ensemble has equal shares of its generators. The evolution of a mixture sees one neighbourhood; the
choice sees all cells. The two genetic choices follow Toutouh, Hemberg and O'Reilly 2020
(doi:10.1145/3377930.3390229): one of ensembles of a fixed size, one of any size up to a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cloudgan.coevolution.cell import CellState
from cloudgan.coevolution.evolution import Purpose, random_numbers
from cloudgan.coevolution.mixture import Mixture
from cloudgan.coevolution.task import Draw, Individual, Pair, Quality, Task
from cloudgan.schema.coevolution import CoevolutionConfig
from cloudgan.schema.mixture_quality import (
    ChosenEnsemble,
    EnsembleMethod,
    MeasuredQuality,
    MixtureQuality,
)

Members = tuple[int, ...]

_POPULATION = 20
_GENERATIONS = 30
_TOURNAMENT = 2


@dataclass(frozen=True)
class Ensemble:
    """Generators that give equal shares of the samples.

    `members` are cells in the order of their choice, or ascending; `scored` ensembles were measured to find
    it.
    """

    members: Members
    quality: Quality
    scored: int


def make_pools(
    pair: Pair, generators: Mapping[int, Individual], samples: int, seed: int
) -> dict[int, Any]:
    """Returns samples (N, ...) of each generator."""
    return {
        cell: pair.generate(Draw(seed, cell, 0, Purpose.RESULT), generator, samples)
        for cell, generator in generators.items()
    }


class EnsembleSearch:
    """Ensembles of measured samples; the quality of each is computed once."""

    def __init__(
        self, pools: Mapping[int, Any], quality: Callable[[Any], Quality], *, seed: int
    ) -> None:
        """`pools` has measures (N, ...) of samples of each generator, by cell; the score is minimised."""
        self._pools, self._measure, self._seed = pools, quality, seed
        self._known: dict[Members, Quality] = {}

    def greedy(self, size: int | None = None) -> Ensemble:
        """Adds the generator that improves the score most, until none does."""
        chosen: Members = ()
        best = float("inf")
        for _ in range(self._most(size)):
            left = [cell for cell in self._pools if cell not in chosen]
            scores = [self._score((*chosen, cell)) for cell in left]
            if chosen and not min(scores) < best:
                break
            best = min(scores)
            chosen = (*chosen, left[int(np.argmin(scores))])
        return self._ensemble(chosen)

    def genetic(self, size: int | None = None) -> Ensemble:
        """Evolves a population of ensembles by tournament, crossover and mutation; keeps the best."""
        random = random_numbers(Draw(self._seed, 0, 0, Purpose.RESULT), 1)
        cells = np.array(list(self._pools))
        fixed = None if size is None else self._most(size)
        population = [_new(cells, fixed, random) for _ in range(_POPULATION)]
        population.sort(key=self._score)
        for _ in range(_GENERATIONS):
            children = [
                _child(self._parents(population, random), cells, fixed, random)
                for _ in range(_POPULATION)
            ]
            together = dict.fromkeys((*population, *children))
            population = sorted(together, key=self._score)[:_POPULATION]
        return self._ensemble(population[0])

    def _most(self, size: int | None) -> int:
        return len(self._pools) if size is None else min(size, len(self._pools))

    def _parents(
        self, population: Sequence[Members], random: np.random.Generator
    ) -> tuple[Members, Members]:
        """Returns two winners of tournaments; the population is in the order of the score."""
        drawn = random.integers(len(population), size=(2, _TOURNAMENT)).min(1)
        return population[int(drawn[0])], population[int(drawn[1])]

    def _score(self, members: Members) -> float:
        return self._quality(members).score

    def _quality(self, members: Members) -> Quality:
        key = tuple(sorted(members))
        if key not in self._known:
            order = random_numbers(Draw(self._seed, 0, 0, Purpose.RESULT), 0)
            samples = Mixture.uniform(key).samples(self._pools, order)
            self._known[key] = self._measure(samples)
        return self._known[key]

    def _ensemble(self, members: Members) -> Ensemble:
        return Ensemble(members, self._quality(members), len(self._known))


def _new(cells: np.ndarray, size: int | None, random: np.random.Generator) -> Members:
    count = int(random.integers(1, len(cells) + 1)) if size is None else size
    return _members(random.choice(cells, count, replace=False))


def _child(
    parents: tuple[Members, Members],
    cells: np.ndarray,
    size: int | None,
    random: np.random.Generator,
) -> Members:
    """Returns an ensemble with members of both parents, and one membership changed."""
    shared = np.intersect1d(*parents)
    either = np.setxor1d(*parents)
    if size is None:
        genes = set(shared) | set(either[random.random(len(either)) < 0.5])  # noqa: PLR2004
        genes ^= {random.choice(cells)}
        return _members(genes) if genes else parents[0]
    drawn = random.choice(either, size - len(shared), replace=False)
    kept = np.concatenate([shared, drawn])
    others = np.setdiff1d(cells, kept)
    if len(others):
        kept[random.integers(len(kept))] = random.choice(others)
    return _members(kept)


def _members(cells: Any) -> Members:
    return tuple(sorted(int(cell) for cell in cells))


def compare(
    config: CoevolutionConfig,
    states: Sequence[CellState],
    *,
    task: Task,
    pair: Pair,
    ensemble: EnsembleMethod | None = None,
    size: int | None = None,
) -> MixtureQuality:
    """Measures the mixture of the cell with the best score, all on the same new samples.

    Each generator makes `score_samples`. An ensemble is chosen among the best generators of all cells;
    `size` is of greedy the most, of genetic the exact number of its generators; None: any number.
    """
    cell = min(range(len(states)), key=lambda number: states[number].score)
    mixture = states[cell].mixture
    needed = range(len(states)) if ensemble else mixture.members
    best = {number: states[number].population.generators[0] for number in needed}
    pools = make_pools(pair, best, config.score_samples, config.seed)
    measures = {number: task.measure(samples) for number, samples in pools.items()}
    alone = {number: task.quality(measures[number]) for number in mixture.members}
    best_member = min(alone, key=lambda number: alone[number].score)
    chosen = None
    if ensemble:
        search = EnsembleSearch(measures, task.quality, seed=config.seed)
        found = (search.greedy if ensemble == "greedy" else search.genetic)(size)
        chosen = ChosenEnsemble(
            method=ensemble,
            cells=found.members,
            quality=_measured(found.quality),
            scored=found.scored,
        )
    return MixtureQuality(
        iteration=states[cell].iteration,
        cell=cell,
        samples=config.score_samples,
        mixture=_measured(_quality(mixture, measures, task, config.seed)),
        best_generator=_measured(alone[best_member]),
        best_generator_cell=best_member,
        uniform=_measured(_quality(Mixture.uniform(mixture.members), measures, task, config.seed)),
        ensemble=chosen,
    )


def _quality(mixture: Mixture, measures: Mapping[int, Any], task: Task, seed: int) -> Quality:
    order = random_numbers(Draw(seed, 0, 0, Purpose.RESULT), 0)
    return task.quality(mixture.samples(measures, order))


def _measured(quality: Quality) -> MeasuredQuality:
    return MeasuredQuality(score=quality.score, details=dict(quality.details))
