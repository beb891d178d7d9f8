"""Samplers of a search: our own, and two of Optuna, which may ask a point of integers and choices twice.

`gp` models the objective with a Gaussian process and asks where the expected improvement is largest
(Jones, Schonlau and Welch 1998, doi:10.1023/A:1008306431147); points that still run count with the
model's mean (Ginsbourger, Le Riche and Carraro 2010, doi:10.1007/978-3-642-10701-6_6). Optuna's own
needs PyTorch. `evolution` is the rule of NNLO (Vlimant et al. 2020,
doi:10.1051/epjconf/202024506018): a fraction of the fittest, random linear interpolation between two of
them, mutation in a small volume. `cmaes` is the covariance matrix adaptation of the package cmaes
(Hansen 2016, arXiv:1604.00772); Optuna's own unpickles its state from the journal. All are functions of
(seed, number of the trial, history), so a resumed search asks the same points.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, TrialState
from threadpoolctl import threadpool_limits

from cloudgan.schema.search import Dimension, SamplerName

Floats = NDArray[np.float64]

_FIRST_POINTS = 5  # a Gaussian process through fewer has nothing to model
_CANDIDATES, _NEAR_BEST = 512, 64
_NEAR = 0.02
_SAME = 1e-6  # trainings of points that are closer differ less than those of two seeds
_POPULATION, _ELITE_FRACTION = 12, 0.25
_DRAWS = 100
_MUTATION_RATE, _MUTATION_SCALE = 0.5, 0.1
_FIRST_SIGMA = 0.3


@dataclass(frozen=True)
class History:
    """What a rule knows.

    Points of trials that ended are (n, d) in the unit cube, in the order in which they ended; values (n,)
    are to be minimized, that of one that failed worse than all others; running points (m, d) have no value
    yet.
    """

    points: Floats
    values: Floats
    running: Floats
    dimensions: tuple[Dimension, ...]

    def features(self, points: Floats) -> Floats:
        """Returns distance features of points (n, d): one column per range, one per choice, for choices have no order."""
        parts = []
        for index, dimension in enumerate(self.dimensions):
            column = points[:, index]
            if count := len(dimension.choices or ()):
                chosen = np.minimum((column * count).astype(int), count - 1)
                parts.append(np.eye(count)[chosen])
            else:
                parts.append(column[:, None])
        return np.concatenate(parts, axis=1)

    def trained(self, points: Floats) -> Floats:
        """Returns the positions of the values, (n, d), with which trials at the points would train."""
        found = [
            [
                one.encode(one.decode(float(unit)))
                for one, unit in zip(self.dimensions, point, strict=True)
            ]
            for point in points
        ]
        return np.array(found)


Rule = Callable[[History, np.random.Generator, int], Floats]
"""From the history, random numbers and the number of the trial to its point (d,), each from 0 to 1."""


def propose_by_gp(history: History, rng: np.random.Generator, number: int) -> Floats:
    """Returns the new point of the largest expected improvement; the first five are random.

    The model expects an improvement at a known corner of the space too, because it knows of noise. A training
    with the seed of the search has none: its result would be the same.
    """
    from scipy.optimize import minimize  # noqa: PLC0415  SciPy takes a second to import
    from scipy.stats import qmc  # noqa: PLC0415

    size = len(history.dimensions)
    if number < _FIRST_POINTS or len(history.values) < _FIRST_POINTS:
        return propose_at_random(history, rng, number)
    improvement = _expected_improvement(history, int(rng.integers(2**31)))
    at_best = history.points[int(np.argmin(history.values))]
    candidates = np.concatenate(
        [
            qmc.Sobol(size, seed=int(rng.integers(2**31))).random(_CANDIDATES),
            np.clip(at_best + _NEAR * rng.standard_normal((_NEAR_BEST, size)), 0, 1),
        ]
    )
    candidates = history.trained(candidates)
    are_new = _are_new(candidates, history)
    candidates = candidates[are_new] if are_new.any() else candidates
    start = candidates[int(np.argmax(improvement(candidates)))]
    found = minimize(
        lambda point: -math.log(float(improvement(point[None])[0]) + 1e-30),
        start,
        bounds=[(0.0, 1.0)] * size,
        method="L-BFGS-B",
        options={"maxiter": 20},
    )
    best: Floats = history.trained(found.x[None])[0]
    before, after = improvement(np.stack([start, best]))
    return best if after > before and _are_new(best[None], history)[0] else start


def propose_at_random(history: History, rng: np.random.Generator, number: int) -> Floats:
    """Returns a point of the uniform distribution."""
    del number
    size = len(history.dimensions)
    return _first_new(history, rng, lambda: rng.random(size))


def _first_new(history: History, rng: np.random.Generator, draw: Callable[[], Floats]) -> Floats:
    """Returns the first of some draws, then of some random points, that no trial has; else the last one.

    Two trials with the same values have the same result: all have the seed of the search.
    """
    size = len(history.dimensions)
    for attempt in range(2 * _DRAWS):
        point = draw() if attempt < _DRAWS else rng.random(size)
        if _are_new(point[None], history)[0]:
            break
    return point


def _are_new(points: Floats, history: History) -> NDArray[np.bool_]:
    """Returns which of the points, (n, d), would train with values that no trial has."""
    asked = np.concatenate([history.points, history.running])
    points = history.trained(points)
    distances: Floats = np.abs(points[:, None] - asked).max(axis=2).min(axis=1, initial=np.inf)
    return np.asarray(distances > _SAME)


def _expected_improvement(history: History, seed: int) -> Callable[[Floats], Floats]:
    """Fits the model and returns the expected improvement at points of shape (n, d)."""
    from scipy.stats import norm  # noqa: PLC0415
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415
    from sklearn.gaussian_process import GaussianProcessRegressor, kernels  # noqa: PLC0415

    features = history.features
    inputs = features(history.points)
    spread = float(history.values.std())
    targets = (history.values - history.values.mean()) / (spread or 1.0)
    best = float(targets.min())
    scale = kernels.Matern(np.full(inputs.shape[1], 0.5), (0.05, 5), nu=2.5)
    noise = kernels.WhiteKernel(1e-6, (1e-8, 1))
    kernel = kernels.ConstantKernel(1.0, (0.05, 20)) * scale + noise
    model = GaussianProcessRegressor(kernel, n_restarts_optimizer=2, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a length at its bound is expected
        model.fit(inputs, targets)
        if len(history.running):
            waiting = features(history.running)
            targets = np.append(targets, model.predict(waiting))
            inputs = np.concatenate([inputs, waiting])
            model = GaussianProcessRegressor(model.kernel_, optimizer=None).fit(inputs, targets)

    def improvement(points: Floats) -> Floats:
        mean, deviation = model.predict(features(points), return_std=True)
        deviation = np.maximum(deviation, 1e-9)
        scaled = (best - mean) / deviation
        return np.asarray((best - mean) * norm.cdf(scaled) + deviation * norm.pdf(scaled))

    return improvement


def propose_by_evolution(history: History, rng: np.random.Generator, number: int) -> Floats:
    """Returns a child of two of the fittest; the first generation is random."""
    size = len(history.dimensions)
    if number < _POPULATION or len(history.values) < _POPULATION // 2:
        return propose_at_random(history, rng, number)
    fittest = np.argsort(history.values)[: max(2, round(_ELITE_FRACTION * _POPULATION))]
    # The volume shrinks with the generations, else the search never settles.
    scale = _MUTATION_SCALE / (number // _POPULATION)

    def child() -> Floats:
        one, other = history.points[rng.choice(fittest, 2, replace=False)]
        between = one + rng.random(size) * (other - one)
        mutates = rng.random(size) < _MUTATION_RATE
        moved: Floats = np.clip(between + mutates * scale * rng.standard_normal(size), 0, 1)
        return moved

    return _first_new(history, rng, child)


def propose_by_cmaes(history: History, rng: np.random.Generator, number: int) -> Floats:
    """Returns a point of the distribution that the finished generations, replayed in order, have adapted."""
    from cmaes import CMA  # noqa: PLC0415  of no other sampler

    del number
    size = len(history.dimensions)
    if size == 1:  # its covariance needs two dimensions
        return propose_by_evolution(history, rng, len(history.values))
    bounds = np.tile([0.0, 1.0], (size, 1))
    middle = np.full(size, 0.5)
    optimizer = CMA(middle, _FIRST_SIGMA, bounds=bounds, seed=int(rng.integers(2**31)))
    generation = optimizer.population_size
    for end in range(generation, len(history.values) + 1, generation):
        rows = slice(end - generation, end)
        values = history.values[rows].tolist()
        optimizer.tell(list(zip(history.points[rows], values, strict=True)))
    return _first_new(history, rng, optimizer.ask)


class RuleSampler(optuna.samplers.BaseSampler):
    """An Optuna sampler that asks a `Rule`."""

    def __init__(self, rule: Rule, space: Mapping[str, Dimension], seed: int) -> None:
        self._rule, self._space, self._seed = rule, space, seed

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Returns the whole space: all values of a point are chosen together."""
        del study, trial
        return distributions(self._space)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Returns the values of the next point."""
        del search_space
        rng = np.random.default_rng((self._seed, trial.number))
        with threadpool_limits(1):  # small matrices; the cores belong to the trials
            point = self._rule(self._history(study, trial), rng, trial.number)
        return {
            key: dimension.decode(float(unit))
            for (key, dimension), unit in zip(self._space.items(), point, strict=True)
        }

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Refuses: every key of the space is chosen by `sample_relative`."""
        del study, trial, param_distribution
        raise AssertionError(f"{param_name} is not in the space")

    def _history(self, study: Study, asking: FrozenTrial) -> History:
        sign = 1.0 if study.directions[0] == optuna.study.StudyDirection.MINIMIZE else -1.0
        ended, running = [], []
        for trial in study.get_trials(deepcopy=False):
            if trial.number == asking.number or set(trial.params) != set(self._space):
                continue
            point = [self._space[key].encode(trial.params[key]) for key in self._space]
            if trial.datetime_complete:
                ended.append((trial.datetime_complete, point, _value_of(trial)))
            else:
                running.append(point)
        # In this order nothing that ends later moves others to another generation of `cmaes`.
        ended.sort(key=lambda one: one[0])
        known = [sign * value for _, _, value in ended if value is not None]
        worst = np.nextafter(max(known, default=0.0), np.inf)  # so that it is not asked again
        values = [worst if value is None else sign * value for _, _, value in ended]
        size = len(self._space)
        return History(
            np.asarray([point for _, point, _ in ended], dtype=np.float64).reshape(-1, size),
            np.asarray(values, dtype=np.float64),
            np.asarray(running, dtype=np.float64).reshape(-1, size),
            tuple(self._space.values()),
        )


def _value_of(trial: FrozenTrial) -> float | None:
    """The first objective; of a pruned trial its last validation; None: it failed."""
    if trial.state == TrialState.COMPLETE:
        return float(trial.values[0])
    if trial.state == TrialState.PRUNED and trial.intermediate_values:
        return trial.intermediate_values[max(trial.intermediate_values)]
    return None


def distributions(space: Mapping[str, Dimension]) -> dict[str, BaseDistribution]:
    """Returns the space as Optuna stores it."""
    return {key: _distribution(dimension) for key, dimension in space.items()}


def _distribution(dimension: Dimension) -> BaseDistribution:
    if dimension.choices is not None:
        return optuna.distributions.CategoricalDistribution(dimension.choices)
    low, high = dimension.decode(0), dimension.decode(1)
    if dimension.is_integer:
        return optuna.distributions.IntDistribution(int(low), int(high), log=dimension.log)
    return optuna.distributions.FloatDistribution(float(low), float(high), log=dimension.log)


def make_sampler(
    name: SamplerName, space: Mapping[str, Dimension], *, seed: int, number: int, trials: int
) -> optuna.samplers.BaseSampler:
    """Returns the sampler that asks one trial.

    Optuna's samplers draw from (seed, number of the trial); the number of all trials is the size of a grid.
    """
    rules: dict[str, Rule] = {
        "gp": propose_by_gp,
        "evolution": propose_by_evolution,
        "cmaes": propose_by_cmaes,
        "random": propose_at_random,
    }
    if name in rules:
        return RuleSampler(rules[name], space, seed)
    if name == "grid":
        points = grid(space, trials)
        return RuleSampler(lambda _, __, asked: points[asked % len(points)], space, seed)
    drawn = int(np.random.default_rng((seed, number)).integers(2**31))
    if name == "tpe":
        return optuna.samplers.TPESampler(seed=drawn)
    return optuna.samplers.NSGAIISampler(seed=drawn, population_size=_POPULATION)


def grid(space: Mapping[str, Dimension], trials: int) -> Floats:
    """Returns a full grid of at most `trials` points, (n, d), or the smallest that has two of each range.

    Optuna's own ends a study by a call that only `Study.optimize` allows.
    """
    ranges = [one for one in space.values() if one.choices is None]
    choices = math.prod(len(one.choices) for one in space.values() if one.choices)
    each = max(2, math.floor((trials / choices) ** (1 / len(ranges)) + 1e-9)) if ranges else 0
    axes = []
    for one in space.values():
        if one.choices is not None:
            axes.append([(index + 0.5) / len(one.choices) for index in range(len(one.choices))])
        else:
            values = dict.fromkeys(one.decode(step / (each - 1)) for step in range(each))
            axes.append([one.encode(value) for value in values])
    return np.array(list(itertools.product(*axes)))
