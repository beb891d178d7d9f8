"""A task in NumPy for tests of the evolution: points that move towards their adversary, with noise.

A network is three weights and one counter. Training moves a generator towards the discriminator and the
discriminator towards the target 1; its loss makes a learner with a rate above 1 become NaN.
"""

from __future__ import annotations

import numpy as np

from cloudgan.coevolution.engine import Cells
from cloudgan.coevolution.evolution import random_numbers
from cloudgan.coevolution.files import GridFolder
from cloudgan.coevolution.grid import check_grid
from cloudgan.coevolution.task import KINDS
from cloudgan.ranks.flat import FlatLayout
from cloudgan.schema.coevolution import CellLine, SampleQuality
from cloudgan.training.stopping import StopFlag

LAYOUT = FlatLayout(("weights", "iteration"), ((3,), ()), 1)
LAYOUTS = dict.fromkeys(KINDS, LAYOUT)


def line(iteration, **changes):
    """A line of a cell's record."""
    usual = {
        "generator_fitness": 1.0,
        "discriminator_fitness": 1.0,
        "rates": (0.001, 0.002),
        "losses": ("bce",),
        "selected": (),
        "entered": 1,
        "best": ("a", "b"),
        "members": {0: 1.0},
        "score": 1.0,
        "seconds": {},
    }
    return CellLine(iteration=iteration, **usual | changes)


def bits(state):
    """All that the state of a cell has."""
    everyone = [one for kind in KINDS for one in state.population.of(kind)]
    return [(one.state.tobytes(), one.header()) for one in everyone] + [state.mixture, state.score]


class QuadraticGame:
    def make_pair(self):
        return QuadraticPair()

    def measure(self, samples):
        return samples

    def quality(self, samples):
        return SampleQuality(
            score=float(np.abs(samples - 1).mean()), details={"mean": float(samples.mean())}
        )

    def pictures(self, samples):
        return samples[None].astype(np.float32)

    def facts(self):
        return {}


class QuadraticPair:
    layouts = LAYOUTS

    def __init__(self):
        self._loaded = {}
        self.calls = []

    def initial(self, kind, seed):
        state = np.zeros(4, np.float32)
        state[:3] = np.random.default_rng(seed).normal(size=3)
        return state

    def generator_weights(self, generator):
        return {"weights": generator.state[:3]}

    def load(self, individual):
        self._loaded[individual.kind] = (individual.state.copy(), individual.rate)

    def read(self, kind):
        return self._loaded[kind][0].copy()

    def train(self, draw, numbers, *, generator, discriminator_every):
        self.calls.append((draw, tuple(numbers), generator, discriminator_every))
        for number in numbers:
            noise = random_numbers(draw, number).normal(size=(2, 3)) * 0.01
            if generator:
                self._step("generator", self._loaded["discriminator"][0][:3] + noise[0])
            if discriminator_every and number % discriminator_every == 0:
                self._step("discriminator", 1 + noise[1])

    def _step(self, kind, target):
        state, rate = self._loaded[kind]
        state[:3] += np.float32(100 * rate) * (target - state[:3]).astype(np.float32)
        state[3] += 1
        if rate > 1:
            state[0] = np.nan

    def fakes(self, draw, generators, samples):
        noise = random_numbers(draw).normal(size=samples).mean() * 0.01
        return np.array([one.state[:3] for one in generators], float), noise

    def losses(self, fakes, discriminators, kinds=KINDS):
        (g, noise), d = fakes, np.array([one.state[:3] for one in discriminators], float)
        apart = np.abs(g[:, None] - d[None]).mean(2) + noise
        losses = apart, np.abs(d - 1).mean(1)[:, None] + 0 * apart.T
        return {kind: losses[KINDS.index(kind)] for kind in kinds}

    def generate(self, draw, generator, samples, rows=None):
        noise = random_numbers(draw).normal(size=(samples, 1)) * 0.01
        found = (generator.state[:3].mean() + noise).astype(np.float32)
        return found if rows is None else found[rows]


def cells_in(path, config, *, show=lambda lines: None, task=None, store=None):
    """Returns the cells of a grid in this process; they continue the run in the folder `path`."""
    folder, task = GridFolder(path, check_grid(config), store), task or QuadraticGame()
    return Cells(folder, config, task, task.make_pair(), flag=StopFlag(), show=show)
