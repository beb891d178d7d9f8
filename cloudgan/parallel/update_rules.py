"""Update rules of asynchronous training: what a worker sends, how master and worker move.

All weights are one flat float32 buffer: first the `trainable` ones, then the statistics of batch norm,
which move towards those of a worker by 1/workers (EASGD: by its elastic rate), because a sum of stale
changes could make a variance negative.

Sources: Downpour, J. Dean et al., NeurIPS 2012. EASGD, S. Zhang, A. Choromanska and Y. LeCun,
arXiv:1412.6651, asynchronous form. GEM, J. Hermans and G. Louppe, arXiv:1805.08469. The master's
optimizers have the formulas and constants of Keras 3 (keras/src/optimizers/{sgd,adam,rmsprop,adadelta}.py),
so that a master of one worker that sends gradients trains as the Keras optimizer does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloudgan.schema.parallel import ParallelConfig

Floats = NDArray[np.float32]
State = dict[str, Floats]

_EPSILON = np.float32(1e-7)


class UpdateRule:
    """One exchange of a worker with its master.

    If `fetches_first`: the worker fetches the centre, sends `to_send`, and calls `at_worker` with the
    fetched centre; the master does not answer. Else: the worker sends `to_send`, and calls `at_worker`
    with the master's answer. The master calls `at_master` in both cases. An instance belongs to one
    process: a worker's keeps what that worker needs, and a master's what the master needs.

    Attributes:
        fetches_first: Whether the worker needs the present centre to compute what it sends.
        answers_first: Whether the master answers with the centre as it was before this update.
        is_synchronous: Whether the master answers when all workers have sent their updates.
        pending: Updates that a synchronous master has received and not yet applied; it answers
            when there are none.
    """

    fetches_first = answers_first = is_synchronous = False

    def __init__(self, workers: int, trainable: int) -> None:
        """Prepares the rule between a master and `workers` workers."""
        self._workers, self._trainable = workers, trainable
        self._slots: State = {}
        self.pending = 0

    def begin(self, centre: Floats) -> None:
        """Notes the weights from which the worker's first steps begin; not after `restore`."""

    def to_send(self, own: Floats, fetched: Floats) -> Floats:
        """Returns what the worker sends.

        `fetched` is the centre as it was last fetched: if `fetches_first`, just now; else that from which
        these steps began.
        """
        del fetched
        return own

    def at_master(self, centre: Floats, sent: Floats, staleness: int) -> None:
        """Moves the centre; `staleness` updates came between the worker's fetch and this one."""
        raise NotImplementedError

    def at_worker(self, own: Floats, centre: Floats) -> None:
        """Moves the worker by the master's answer, or by the fetched centre."""
        own[:] = centre

    def worker_ended(self, centre: Floats) -> None:
        """Lets a synchronous master no longer wait for one worker."""

    def state(self) -> State:
        """Returns arrays by name for a checkpoint; not copies."""
        return dict(self._slots)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continues from `state`."""
        self._slots = {name: np.array(value, np.float32) for name, value in state.items()}

    def _move_statistics(self, moved: Floats, sent: Floats, share: float) -> None:
        k = self._trainable
        moved[k:] += np.float32(share) * (sent[k:] - moved[k:])


class Easgd(UpdateRule):
    """Worker and centre attract each other: both move by elastic_force / workers of their distance."""

    answers_first = True

    def __init__(self, workers: int, trainable: int, force: float) -> None:
        super().__init__(workers, trainable)
        self._rate = np.float32(force / workers)

    def at_master(self, centre: Floats, sent: Floats, staleness: int) -> None:
        """Centre += rate * (sent - centre)."""
        del staleness
        centre += self._rate * (sent - centre)

    def at_worker(self, own: Floats, centre: Floats) -> None:
        """Own += rate * (centre - own)."""
        own += self._rate * (centre - own)


class Gem(UpdateRule):
    """Workers scale their change so that all together have the energy of one with momentum.

    u is the worker's change in its steps, m = momentum * m + u, and c the change of the centre between
    the worker's last two fetches. The worker sends, and adds to the fetched centre,
    u * min(5, max(0, (kappa |m| - |c|) / |u|)), elementwise. With the c of the exchange before, which
    would save a message, the rule diverges (`docs/measurements/parallel.md`).
    """

    fetches_first = True
    _MOST, _TINY = np.float32(5.0), np.float32(1e-12)

    def __init__(
        self, workers: int, trainable: int, momentum: float = 0.9, kappa: float = 2.0
    ) -> None:
        """Prepares the rule; `kappa` is the factor of the energy of a training with `momentum`."""
        super().__init__(workers, trainable)
        self._momentum, self._kappa = np.float32(momentum), np.float32(kappa)
        self._sent = np.empty(0, np.float32)

    def begin(self, centre: Floats) -> None:
        """Notes the weights from which the worker's first steps begin."""
        head = centre[: self._trainable]
        self._slots = {
            "momentum": np.zeros_like(head),
            "previous": head.copy(),
            "start": head.copy(),
        }

    def to_send(self, own: Floats, fetched: Floats) -> Floats:
        """Returns the scaled change of the worker, and its statistics."""
        k, slots = self._trainable, self._slots
        change = own[:k] - slots["start"]
        slots["momentum"] = slots["momentum"] * self._momentum + change
        energy = np.abs(slots["momentum"]) * self._kappa - np.abs(fetched[:k] - slots["previous"])
        slots["previous"] = fetched[:k].copy()
        scaled = change * np.clip(energy / (np.abs(change) + self._TINY), 0, self._MOST)
        self._sent = np.concatenate([scaled, own[k:]])
        return self._sent

    def at_master(self, centre: Floats, sent: Floats, staleness: int) -> None:
        """Centre += sent."""
        del staleness
        centre[: self._trainable] += sent[: self._trainable]
        self._move_statistics(centre, sent, 1 / self._workers)

    def at_worker(self, own: Floats, centre: Floats) -> None:
        """Own = centre + what was sent."""
        own[:] = centre
        self.at_master(own, self._sent, 0)
        self._slots["start"] = own[: self._trainable].copy()


class Downpour(UpdateRule):
    """Workers send how far they moved, or summed gradients; the master's optimizer applies it.

    Damping multiplies the learning rate, not the gradient, because Adam, RMSprop and Adadelta divide
    the scale of the gradient out.
    """

    def __init__(
        self,
        parallel: ParallelConfig,
        workers: int,
        trainable: int,
        *,
        rate: float,
        worker_rate: float,
    ) -> None:
        """The damping is 1 / max(1, staleness), 1 / workers or 1.

        What is sent: ``weights`` is fetched - own, ``gradients`` the same divided by `worker_rate`, the sum
        of the worker's gradients if its optimizer is plain SGD. Synchronous: the mean of one update per
        worker is applied, undamped.
        """
        super().__init__(workers, trainable)
        self._step, self._rate = _OPTIMIZERS[parallel.master_optimizer], rate
        self._damping, self.is_synchronous = parallel.damping, parallel.synchronous
        self._scale = np.float32(1.0 if parallel.sends == "weights" else 1.0 / worker_rate)
        self._expected, self._updates = workers, 0
        self._sum = np.empty(0, np.float32)

    def to_send(self, own: Floats, fetched: Floats) -> Floats:
        """Returns (fetched - own) * scale, and the worker's statistics."""
        k = self._trainable
        return np.concatenate([(fetched[:k] - own[:k]) * self._scale, own[k:]])

    def at_master(self, centre: Floats, sent: Floats, staleness: int) -> None:
        """Lets the optimizer apply the damped update; a synchronous master collects it first."""
        if self.is_synchronous:
            self._sum = self._sum + sent if self.pending else sent.copy()
            self.pending += 1
            self._apply_full_round(centre)
            return
        factor = {"staleness": 1.0 / max(1, staleness), "mean": 1.0 / self._workers, "none": 1.0}
        self._apply(centre, sent, factor[self._damping], 1.0 / self._workers)

    def worker_ended(self, centre: Floats) -> None:
        """Applies the round if it waited for this worker only."""
        self._expected -= 1
        self._apply_full_round(centre)

    def state(self) -> State:
        """Returns the slots of the optimizer, and the updates collected so far."""
        found = super().state() | {"updates": np.array([self._updates], np.float32)}
        if self.pending:
            found |= {"sum": self._sum, "pending": np.array([self.pending], np.float32)}
        return found

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continues from `state`."""
        super().restore(state)
        self._updates = int(self._slots.pop("updates", [0])[0])
        self.pending = int(self._slots.pop("pending", [0])[0])
        self._sum = self._slots.pop("sum", self._sum)

    def _apply_full_round(self, centre: Floats) -> None:
        if self.pending and self.pending >= self._expected:
            mean, self.pending = self._sum / np.float32(self.pending), 0
            self._apply(centre, mean, 1.0, 1.0)

    def _apply(self, centre: Floats, update: Floats, factor: float, share: float) -> None:
        k = self._trainable
        self._updates += 1
        centre[:k] -= self._step(update[:k], self._slots, self._updates, self._rate * factor)
        self._move_statistics(centre, update, share)


def _average_square(slots: State, name: str, rho: float, values: Floats) -> Floats:
    """Moves the average of squares in a slot by 1 - `rho` of its distance; returns it."""
    old = slots.get(name, np.zeros_like(values))
    moved: Floats = np.asarray(old * np.float32(rho) + np.square(values) * np.float32(1 - rho))
    slots[name] = moved
    return moved


def _sgd(gradient: Floats, slots: State, updates: int, rate: float) -> Floats:
    del slots, updates
    return gradient * np.float32(rate)


def _rmsprop(gradient: Floats, slots: State, updates: int, rate: float) -> Floats:
    """Applies v = 0.9 v + 0.1 g^2; rate * g / sqrt(v + 1e-7)."""
    del updates
    velocity = _average_square(slots, "velocity", 0.9, gradient)
    return np.asarray(gradient * np.float32(rate) / np.sqrt(velocity + _EPSILON))


def _adam(gradient: Floats, slots: State, updates: int, rate: float) -> Floats:
    """Applies m = 0.9 m + 0.1 g; v = 0.999 v + 0.001 g^2; rate * corrected m / (sqrt(v) + 1e-7)."""
    old = slots.get("momentum", np.zeros_like(gradient))
    slots["momentum"] = old + (gradient - old) * np.float32(1 - 0.9)
    velocity = _average_square(slots, "velocity", 0.999, gradient)
    corrected = math.sqrt(1 - 0.999**updates) / (1 - 0.9**updates)
    step = slots["momentum"] * np.float32(rate * corrected)
    return np.asarray(step / (np.sqrt(velocity) + _EPSILON))


def _adadelta(gradient: Floats, slots: State, updates: int, rate: float) -> Floats:
    """Applies d = g * sqrt(s + 1e-7) / sqrt(v + 1e-7), averages v of g^2 and s of d^2; rate * d."""
    del updates
    moved = slots.get("moved", np.zeros_like(gradient))
    velocity = _average_square(slots, "velocity", 0.95, gradient)
    step = np.sqrt((moved + _EPSILON) / (velocity + _EPSILON)) * gradient
    _average_square(slots, "moved", 0.95, step)
    return step * np.float32(rate)


_OPTIMIZERS: dict[str, Callable[[Floats, State, int, float], Floats]] = {
    "sgd": _sgd,
    "rmsprop": _rmsprop,
    "adam": _adam,
    "adadelta": _adadelta,
}
"""What each optimizer subtracts from the weights, by its gradient, slots, number of updates and rate."""


def make_rule(
    parallel: ParallelConfig, *, workers: int, trainable: int, learning_rate: float
) -> UpdateRule:
    """Makes the rule between workers and their master.

    `workers` exchange with the same master; the leading `trainable` entries of the flat buffer are trained,
    statistics follow.
    """
    if parallel.mode == "easgd":
        return Easgd(workers, trainable, parallel.elastic_force)
    if parallel.mode == "gem":
        return Gem(workers, trainable, parallel.momentum, parallel.kappa)
    moves_like_workers = parallel.master_optimizer == "sgd" and parallel.sends == "weights"
    rate = parallel.master_learning_rate or (1.0 if moves_like_workers else learning_rate)
    return Downpour(parallel, workers, trainable, rate=rate, worker_rate=learning_rate)


def make_rule_of_masters(
    parallel: ParallelConfig, *, workers: int, trainable: int, learning_rate: float
) -> UpdateRule:
    """Makes the rule between `workers` masters and rank 0 above them: that of their workers.

    Under Downpour rank 0 adds how far a master moved, because the optimizer of that master has applied
    the gradients.
    """
    plain = {"sends": "weights", "master_optimizer": "sgd", "master_learning_rate": None}
    return make_rule(
        parallel.model_copy(update=plain),
        workers=workers,
        trainable=trainable,
        learning_rate=learning_rate,
    )
