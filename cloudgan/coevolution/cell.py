"""A cell: its populations, its mixture, and one iteration of its evolution.

An iteration has four routines, named as in arXiv:2004.04633: *gather* takes the neighbours'
individuals (the engine does it), *update_genomes* selects before the training and replaces after it,
*mutate* moves learning rates and draws losses, *train* runs the batches.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloudgan.coevolution.evolution import (
    Mixture,
    Purpose,
    aggregate,
    evolve_weights,
    mutate,
    random_numbers,
    replace_worst,
    tournament,
)
from cloudgan.coevolution.grid import Grid
from cloudgan.coevolution.record import is_pictured
from cloudgan.coevolution.task import KINDS, Draw, Individual, Kind, Pair, Task
from cloudgan.ranks.flat import Floats
from cloudgan.schema.coevolution import ROUTINES, CellLine, CoevolutionConfig, SampleQuality


@dataclass(frozen=True)
class Population:
    """The individuals of a cell, the fittest first.

    There are as many discriminators as generators, at least one.
    """

    generators: tuple[Individual, ...]
    discriminators: tuple[Individual, ...]

    def of(self, kind: Kind) -> tuple[Individual, ...]:
        """Returns the individuals of a kind."""
        return self.generators if kind == "generator" else self.discriminators

    def headers(self) -> dict[str, Any]:
        """Returns everything but the states, as JSON."""
        return {kind: [one.header() for one in self.of(kind)] for kind in KINDS}

    def states(self) -> list[Floats]:
        """Returns the states of all individuals, in the order of `from_headers`."""
        return [one.state for kind in KINDS for one in self.of(kind)]

    @classmethod
    def from_headers(cls, headers: Mapping[str, Any], states: Iterable[Floats]) -> Population:
        """Returns the population of headers and states, which are not copied."""
        everyone = [header for kind in KINDS for header in headers[kind]]
        found = [Individual.from_header(*one) for one in zip(everyone, states, strict=True)]
        generators = len(headers["generator"])
        return cls(tuple(found[:generators]), tuple(found[generators:]))

    @property
    def is_finite(self) -> bool:
        """Whether all values of all individuals are finite."""
        return all(one.is_finite for kind in KINDS for one in self.of(kind))


@dataclass(frozen=True)
class CellState:
    """Everything that a cell needs to continue; random numbers are functions of the iteration.

    `iteration` counts iterations done; the score of the mixture is infinite before the first one.
    """

    iteration: int
    population: Population
    mixture: Mixture
    score: float = float("inf")


class Cell:
    """A cell of the grid; `pair` and `task` may be shared with other cells of the process."""

    def __init__(
        self,
        number: int,
        config: CoevolutionConfig,
        grid: Grid,
        *,
        task: Task,
        pair: Pair,
        state: CellState | None = None,
    ) -> None:
        """Prepares a cell: with new networks, or with those of a saved state."""
        self.number, self._config, self._grid = number, config, grid
        self._task, self._pair = task, pair
        self.state = state or self._first_state()
        self.pictures: NDArray[np.float32] | None = None
        """Images of samples of the mixture, after an iteration whose pictures are kept."""

    def neighbours(self) -> tuple[int, ...]:
        """Returns the cells whose individuals the next iteration needs."""
        kind = self._config.neighbourhood_at(self.state.iteration)
        return self._grid.neighbours(self.number, kind)

    def iterate(
        self,
        gathered: Mapping[int, Population],
        *,
        gather_seconds: float = 0.0,
        ages: Mapping[int, int] | None = None,
    ) -> CellLine:
        """Runs one iteration with the neighbours' individuals.

        `ages` are the iterations by which the neighbours of an asynchronous run are behind.
        """
        seconds = dict.fromkeys(ROUTINES, 0.0) | {"gather": gather_seconds}
        own = self.state.population
        around = [gathered[number] for number in self.neighbours()]
        with _timed(seconds, "update_genomes"):
            met = {
                kind: [one for cell in (own, *around) for one in cell.of(kind)] for kind in KINDS
            }
            fakes = self._fakes(met["generator"])
            judged = self._judge(fakes, met)
            random = self._random(Purpose.TOURNAMENT)
            selected = {kind: self._select(kind, judged[kind], random) for kind in KINDS}
        with _timed(seconds, "mutate"):
            random = self._random(Purpose.MUTATION)
            learners = {
                kind: [mutate(one, self._config, random) for one in selected[kind]]
                for kind in KINDS
            }
        with _timed(seconds, "train"):
            trained = Population(*map(tuple, self._train(learners)))
        diverged = not trained.is_finite
        taken_from = None
        with _timed(seconds, "update_genomes"):
            if diverged:
                taken_from, population = self._best_neighbour(judged, own)
                entered = 0
            else:
                population, entered = self._replace(judged, fakes, trained)
            mixture, quality = self._evolve_mixture(population, gathered)
        self.state = CellState(self.state.iteration + 1, population, mixture, quality.score)
        best = population.generators[0]
        return CellLine(
            iteration=self.state.iteration,
            generator_fitness=best.fitness,
            discriminator_fitness=population.discriminators[0].fitness,
            rates=tuple(one.rate for kind in KINDS for one in learners[kind]),
            losses=tuple(one.loss for one in learners["generator"]),
            selected=tuple(one.parent for kind in KINDS for one in selected[kind]),
            entered=entered,
            best=(best.name, best.parent),
            members=dict(zip(mixture.members, mixture.weights, strict=True)),
            score=quality.score,
            details=dict(quality.details),
            diverged=diverged,
            taken_from=taken_from,
            ages=dict(ages or {}),
            seconds={name: round(value, 6) for name, value in seconds.items()},
        )

    def _first_state(self) -> CellState:
        config, name = self._config, self._grid.name(self.number)
        around = self._grid.neighbours(self.number, config.neighbourhood_at(0))
        random = random_numbers(Draw(config.seed, self.number, 0, Purpose.INITIAL))
        seeds = random.integers(2**31, size=(len(KINDS), config.population)).tolist()
        individuals = (
            tuple(
                Individual(
                    *(kind, self._pair.initial(kind, seed), config.learning_rate),
                    *("bce", float("inf"), f"{name}/0/{kind[0]}{number}"),
                )
                for number, seed in enumerate(own)
            )
            for kind, own in zip(KINDS, seeds, strict=True)
        )
        return CellState(0, Population(*individuals), Mixture.uniform((self.number, *around)))

    def _fakes(self, generators: Sequence[Individual]) -> Any:
        return self._pair.fakes(
            self._draw(Purpose.FITNESS), generators, self._config.fitness_samples
        )

    def _judge(
        self,
        fakes: Any,
        individuals: Mapping[Kind, Sequence[Individual]],
        kinds: Sequence[Kind] = KINDS,
    ) -> dict[Kind, list[Individual]]:
        """Returns the individuals of `kinds` with their fitness against those of the other kind."""
        losses = self._pair.losses(fakes, individuals["discriminator"], kinds)
        values = {kind: aggregate(losses[kind], self._config.fitness) for kind in kinds}
        return {
            kind: [
                replace(one, fitness=float(value))
                for one, value in zip(individuals[kind], values[kind], strict=True)
            ]
            for kind in kinds
        }

    def _select(
        self, kind: Kind, judged: Sequence[Individual], random: np.random.Generator
    ) -> list[Individual]:
        fitness = np.array([one.fitness for one in judged])
        config, iteration = self._config, self.state.iteration + 1
        winners = tournament(fitness, config.tournament, config.population, random)
        place = self._grid.name(self.number)
        return [
            judged[winner].child(f"{place}/{iteration}/{kind[0]}{number}")
            for number, winner in enumerate(winners)
        ]

    def _train(self, learners: Mapping[Kind, Sequence[Individual]]) -> list[list[Individual]]:
        """Trains all learners, each batch against one adversary drawn from the others."""
        draw, batches = self._draw(Purpose.BATCHES), range(self._config.batches)
        every = self._config.discriminator_every
        current = {kind: list(learners[kind]) for kind in KINDS}
        if (
            self._config.population == 1
        ):  # the adversary is always the same: one call for all batches
            for kind in KINDS:
                self._pair.load(current[kind][0])
            self._pair.train(draw, batches, generator=True, discriminator_every=every)
            return [[replace(current[kind][0], state=self._pair.read(kind))] for kind in KINDS]
        random = self._random(Purpose.ADVERSARY)
        for batch in batches:
            self._train_against(current, "generator", draw, batch, random)
            if batch % every == 0:
                self._train_against(current, "discriminator", draw, batch, random)
        return [current[kind] for kind in KINDS]

    def _train_against(
        self,
        current: dict[Kind, list[Individual]],
        kind: Kind,
        draw: Draw,
        batch: int,
        random: np.random.Generator,
    ) -> None:
        other: Kind = "discriminator" if kind == "generator" else "generator"
        self._pair.load(current[other][int(random.integers(len(current[other])))])
        for number, learner in enumerate(current[kind]):
            self._pair.load(learner)
            generator = kind == "generator"
            self._pair.train(
                draw, (batch,), generator=generator, discriminator_every=0 if generator else 1
            )
            current[kind][number] = replace(learner, state=self._pair.read(kind))

    def _replace(
        self, judged: Mapping[Kind, Sequence[Individual]], fakes: Any, trained: Population
    ) -> tuple[Population, int]:
        """Lets the trained individuals enter where they are better, against the same adversaries."""
        entered, populations = 0, []
        for kind in KINDS:
            is_generator = kind == "generator"
            new = self._judge(
                self._fakes(trained.generators) if is_generator else fakes,
                {**judged, kind: trained.of(kind)},
                (kind,),
            )
            old = judged[kind][: self._config.population]
            population, count = replace_worst(old, new[kind], self._config.replacements)
            populations.append(population)
            entered += count
        return Population(*populations), entered

    def _best_neighbour(
        self, judged: Mapping[Kind, Sequence[Individual]], own: Population
    ) -> tuple[int | None, Population]:
        """Returns the neighbour with the fittest generator, and copies of its individuals."""
        count = self._config.population
        neighbours = self.neighbours()
        values = [
            min(one.fitness for one in judged["generator"][first : first + count])
            for first in range(count, len(judged["generator"]), count)
        ]
        if not values or not np.isfinite(min(values)):
            return None, own
        best = int(np.argmin(values))
        chosen = slice(count * (best + 1), count * (best + 2))
        copies = (
            [replace(one, state=one.state.copy()) for one in judged[kind][chosen]] for kind in KINDS
        )
        return neighbours[best], Population(
            *(tuple(sorted(each, key=lambda one: one.fitness)) for each in copies)
        )

    def _evolve_mixture(
        self, population: Population, gathered: Mapping[int, Population]
    ) -> tuple[Mixture, SampleQuality]:
        mixture = self.state.mixture.with_members((self.number, *self.neighbours()))
        draw, count = self._draw(Purpose.SCORE), self._config.score_samples
        generators = {self.number: population.generators[0]} | {
            number: gathered[number].generators[0] for number in mixture.members[1:]
        }

        def samples(number: int, rows: NDArray[np.intp]) -> Any:
            place = draw._replace(cell=number)
            return self._pair.generate(place, generators[number], count, rows)

        found, quality = evolve_weights(
            mixture,
            lambda number, rows: self._task.measure(samples(number, rows)),
            self._task.quality,
            count=count,
            sigma=self._config.mixture_sigma,
            mutation=self._random(Purpose.MIXTURE),
            sampling=lambda: random_numbers(draw),
        )
        self.pictures = None
        if is_pictured(self.state.iteration + 1, self._config.iterations):
            pools = {number: samples(number, np.arange(count)) for number in found.members}
            self.pictures = self._task.pictures(found.samples(pools, random_numbers(draw)))
        return found, quality

    def _draw(self, purpose: int) -> Draw:
        return Draw(self._config.seed, self.number, self.state.iteration, purpose)

    def _random(self, purpose: Purpose) -> np.random.Generator:
        return random_numbers(self._draw(purpose))


@contextmanager
def _timed(seconds: dict[str, float], routine: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    seconds[routine] += time.perf_counter() - began
