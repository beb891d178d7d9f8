"""Optimizers of a Downpour master on one flat float32 buffer, in place.

Formulas and constants are those of Keras 3 (keras/src/optimizers/{sgd,adam,rmsprop,adadelta}.py), so
that a master of one worker that sends gradients trains as the Keras optimizer does.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
import numpy.typing as npt

from cloudgan.schema.parallel import MasterOptimizer

Floats = npt.NDArray[np.float32]

_EPSILON = np.float32(1e-7)


class Optimizer(Protocol):
    """Applies gradients to weights."""

    def apply(self, weights: Floats, gradient: Floats, factor: float) -> None:
        """Moves `weights` by one update; the learning rate is multiplied by `factor`.

        Damping scales the step, not the gradient, because Adam, RMSprop and Adadelta divide the
        scale of the gradient out.
        """

    def state(self) -> dict[str, Floats]:
        """Returns the slots by name; not copies."""

    def restore(self, state: dict[str, Floats]) -> None:
        """Continues from `state`."""


class _Slots:
    """Arrays like the weights, allocated as zeros at the first update."""

    names: tuple[str, ...] = ()

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._arrays: dict[str, Floats] = {}
        self._scratch = (np.empty(0, np.float32), np.empty(0, np.float32))
        self._updates = 0

    def _begin(self, weights: Floats) -> None:
        self._updates += 1
        if self._scratch[0].shape != weights.shape:
            self._scratch = (np.empty_like(weights), np.empty_like(weights))
            for name in self.names:
                self._arrays.setdefault(name, np.zeros_like(weights))

    def state(self) -> dict[str, Floats]:
        """Returns the slots and the number of updates."""
        return self._arrays | {"updates": np.array([self._updates], np.float32)}

    def restore(self, state: dict[str, Floats]) -> None:
        """Continues from `state`."""
        if state:
            self._updates = int(state["updates"][0])
            self._arrays = {
                name: np.array(state[name], np.float32) for name in self.names if name in state
            }


class Sgd(_Slots):
    """w -= rate * g."""

    def apply(self, weights: Floats, gradient: Floats, factor: float) -> None:
        """Moves `weights` by one update."""
        self._begin(weights)
        step, _ = self._scratch
        np.multiply(gradient, np.float32(self._rate * factor), out=step)
        np.subtract(weights, step, out=weights)


class RmsProp(_Slots):
    """v = 0.9 v + 0.1 g^2; w -= rate * g / sqrt(v + 1e-7)."""

    names = ("velocity",)
    _RHO = 0.9

    def apply(self, weights: Floats, gradient: Floats, factor: float) -> None:
        """Moves `weights` by one update."""
        self._begin(weights)
        step, other = self._scratch
        velocity = self._arrays["velocity"]
        _average_square(velocity, gradient, self._RHO, step)
        np.add(velocity, _EPSILON, out=other)
        np.sqrt(other, out=other)
        np.multiply(gradient, np.float32(self._rate * factor), out=step)
        np.divide(step, other, out=step)
        np.subtract(weights, step, out=weights)


class Adam(_Slots):
    """m = 0.9 m + 0.1 g; v = 0.999 v + 0.001 g^2; w -= rate * corrected m / (sqrt(v) + 1e-7)."""

    names = ("momentum", "velocity")
    _BETA_1, _BETA_2 = 0.9, 0.999

    def apply(self, weights: Floats, gradient: Floats, factor: float) -> None:
        """Moves `weights` by one update."""
        self._begin(weights)
        step, other = self._scratch
        momentum, velocity = self._arrays["momentum"], self._arrays["velocity"]
        np.subtract(gradient, momentum, out=step)
        np.multiply(step, np.float32(1 - self._BETA_1), out=step)
        np.add(momentum, step, out=momentum)
        _average_square(velocity, gradient, self._BETA_2, step)
        corrected = math.sqrt(1 - self._BETA_2**self._updates) / (1 - self._BETA_1**self._updates)
        np.sqrt(velocity, out=other)
        np.add(other, _EPSILON, out=other)
        np.multiply(momentum, np.float32(self._rate * factor * corrected), out=step)
        np.divide(step, other, out=step)
        np.subtract(weights, step, out=weights)


class Adadelta(_Slots):
    """d = g * sqrt(s + 1e-7) / sqrt(v + 1e-7), with averages v of g^2 and s of d^2; w -= rate * d."""

    names = ("velocity", "moved")
    _RHO = 0.95

    def apply(self, weights: Floats, gradient: Floats, factor: float) -> None:
        """Moves `weights` by one update."""
        self._begin(weights)
        step, other = self._scratch
        velocity, moved = self._arrays["velocity"], self._arrays["moved"]
        _average_square(velocity, gradient, self._RHO, step)
        np.add(moved, _EPSILON, out=step)
        np.add(velocity, _EPSILON, out=other)
        np.divide(step, other, out=step)
        np.sqrt(step, out=step)
        np.multiply(step, gradient, out=step)
        _average_square(moved, step, self._RHO, other)
        np.multiply(step, np.float32(self._rate * factor), out=step)
        np.subtract(weights, step, out=weights)


def make_optimizer(name: MasterOptimizer, rate: float) -> Optimizer:
    """Makes an optimizer with a learning rate."""
    made: dict[str, type[Sgd | RmsProp | Adam | Adadelta]] = {
        "sgd": Sgd,
        "adam": Adam,
        "rmsprop": RmsProp,
        "adadelta": Adadelta,
    }
    return made[name](rate)


def _average_square(average: Floats, values: Floats, rho: float, scratch: Floats) -> None:
    """Average = rho * average + (1 - rho) * values^2."""
    np.square(values, out=scratch)
    np.multiply(scratch, np.float32(1 - rho), out=scratch)
    np.multiply(average, np.float32(rho), out=average)
    np.add(average, scratch, out=average)
