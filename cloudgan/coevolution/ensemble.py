"""The mixture of a finished grid beside its best member, equal weights, and an ensemble of all cells.

An ensemble has equal shares of its generators. The evolution of a mixture sees one neighbourhood; the
choice sees all cells. The two genetic choices follow Toutouh, Hemberg and O'Reilly 2020
(doi:10.1145/3377930.3390229): one of ensembles of a fixed size, one of any size up to a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cloudgan.coevolution.cell import CellState
from cloudgan.coevolution.evolution import Mixture, Purpose, random_numbers
from cloudgan.coevolution.task import Draw, Pair, Task
from cloudgan.schema.coevolution import (
    ChosenEnsemble,
    CoevolutionConfig,
    EnsembleMethod,
    MixtureQuality,
    SampleQuality,
)

Members = tuple[int, ...]

_POPULATION = 20
_GENERATIONS = 30
_TOURNAMENT = 2


class EnsembleSearch:
    """Ensembles of measured samples; the quality of each is computed once."""

    def __init__(
        self, pools: Mapping[int, Any], quality: Callable[[Any], SampleQuality], *, seed: int
    ) -> None:
        """`pools` has measures (N, ...) of samples of each generator, by cell; the score is minimised."""
        self._pools, self._measure, self._seed = pools, quality, seed
        self._known: dict[Members, SampleQuality] = {}

    def greedy(self, size: int | None = None) -> ChosenEnsemble:
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
        return self._ensemble("greedy", chosen)

    def genetic(self, size: int | None = None) -> ChosenEnsemble:
        """Evolves a population of ensembles by tournament, crossover and mutation; keeps the best."""
        random = random_numbers(Draw(self._seed, 0, 0, Purpose.RESULT), 1)
        cells = np.array(list(self._pools))
        fixed = None if size is None else self._most(size)
        population = []
        for _ in range(_POPULATION):
            count = int(random.integers(1, len(cells) + 1)) if fixed is None else fixed
            population.append(_members(random.choice(cells, count, replace=False)))
        population.sort(key=self._score)
        for _ in range(_GENERATIONS):
            children = []
            for _ in range(_POPULATION):
                # Two winners of tournaments; the population is in the order of the score.
                one, other = random.integers(len(population), size=(2, _TOURNAMENT)).min(1).tolist()
                parents = population[one], population[other]
                children.append(_child(parents, cells, fixed, random))
            together = dict.fromkeys((*population, *children))
            population = sorted(together, key=self._score)[:_POPULATION]
        return self._ensemble("genetic", population[0])

    def _most(self, size: int | None) -> int:
        return len(self._pools) if size is None else min(size, len(self._pools))

    def _score(self, members: Members) -> float:
        return self._quality(members).score

    def _quality(self, members: Members) -> SampleQuality:
        key = tuple(sorted(members))
        if key not in self._known:
            order = random_numbers(Draw(self._seed, 0, 0, Purpose.RESULT), 0)
            samples = Mixture.uniform(key).samples(self._pools, order)
            self._known[key] = self._measure(samples)
        return self._known[key]

    def _ensemble(self, method: EnsembleMethod, members: Members) -> ChosenEnsemble:
        """Returns an ensemble; greedy ones have the order of their choice, genetic ones ascend."""
        quality = self._quality(members)
        return ChosenEnsemble(
            method=method, cells=members, quality=quality, scored=len(self._known)
        )


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
    measures = {}
    for number, generator in best.items():
        draw = Draw(config.seed, number, 0, Purpose.RESULT)
        measures[number] = task.measure(pair.generate(draw, generator, config.score_samples))
    alone = {number: task.quality(measures[number]) for number in mixture.members}
    best_member = min(alone, key=lambda number: alone[number].score)
    chosen = None
    if ensemble:
        search = EnsembleSearch(measures, task.quality, seed=config.seed)
        chosen = (search.greedy if ensemble == "greedy" else search.genetic)(size)
    return MixtureQuality(
        iteration=states[cell].iteration,
        cell=cell,
        samples=config.score_samples,
        mixture=_quality(mixture, measures, task, config.seed),
        best_generator=alone[best_member],
        best_generator_cell=best_member,
        uniform=_quality(Mixture.uniform(mixture.members), measures, task, config.seed),
        ensemble=chosen,
    )


def _quality(mixture: Mixture, measures: Mapping[int, Any], task: Task, seed: int) -> SampleQuality:
    order = random_numbers(Draw(seed, 0, 0, Purpose.RESULT), 0)
    return task.quality(mixture.samples(measures, order))
