"""Update rules of asynchronous training: what a worker sends, how master and worker move.

All weights are one flat float32 buffer: first the `trainable` ones, then the statistics of batch
norm, which move towards those of a worker by 1/workers (EASGD: by its elastic rate), because a sum
of stale changes could make a variance negative. Everything is computed in place; buffers are
allocated at the first call.

Sources: Downpour, J. Dean et al., NeurIPS 2012. EASGD, S. Zhang, A. Choromanska and Y. LeCun,
arXiv:1412.6651, asynchronous form. GEM, J. Hermans and G. Louppe, arXiv:1805.08469.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from cloudgan.parallel.master_optimizers import make_optimizer

if TYPE_CHECKING:
    from cloudgan.parallel.master_optimizers import Optimizer
    from cloudgan.schema.parallel import Damping, ParallelConfig, Sent

Floats = npt.NDArray[np.float32]
State = dict[str, npt.NDArray[np.float32]]


class UpdateRule(Protocol):
    """One exchange of a worker with its master.

    If `fetches_first`: the worker fetches the centre, sends `to_send`, and calls `at_worker` with the
    fetched centre; the master does not answer. Else: the worker sends `to_send`, and calls `at_worker`
    with the master's answer. The master calls `at_master` in both cases.

    An instance belongs to one process: a worker's keeps what that worker needs, and a master's what
    the master needs.

    Attributes:
        fetches_first: Whether the worker needs the present centre to compute what it sends.
        answers_first: Whether the master answers with the centre as it was before this update.
        pending: Updates that a synchronous master has received and not yet applied; it answers
            when there are none.
    """

    fetches_first: bool
    answers_first: bool
    pending: int

    def begin(self, centre: Floats) -> None:
        """Notes the weights from which the worker's first steps begin; not after `restore`."""

    def to_send(self, own: Floats, fetched: Floats) -> Floats:
        """Returns what the worker sends; valid until the next call.

        Args:
            own: Weights after the worker's steps.
            fetched: The centre as it was last fetched: if `fetches_first`, just now; else that from
                which these steps began.
        """

    def at_master(self, centre: Floats, sent: Floats, staleness: int) -> None:
        """Moves the centre.

        Args:
            centre: Weights of the master; changed.
            sent: Received from a worker.
            staleness: Updates of the centre since that worker fetched it.
        """

    def at_worker(self, own: Floats, centre: Floats) -> None:
        """Moves the worker.

        Args:
            own: Weights after the worker's steps; changed.
            centre: The master's answer, or the fetched centre.
        """

    def worker_ended(self, centre: Floats) -> None:
        """Lets a synchronous master no longer wait for one worker."""

    def state(self) -> State:
        """Returns arrays by name for a checkpoint; not copies."""

    def restore(self, state: State) -> None:
        """Continues from `state`."""


class _Stateless:
    """Methods of a rule that needs nothing from one exchange to the next."""

    fetches_first = False
    answers_first = False
    pending = 0

    def begin(self, centre: Floats) -> None:
        """Notes nothing."""

    def worker_ended(self, centre: Floats) -> None:
        """Waits for no worker."""

    def state(self) -> State:
        """Returns nothing."""
        return {}

    def restore(self, state: State) -> None:
        """Needs nothing."""


class Easgd(_Stateless):
    """Worker and centre attract each other: both move by `rate` of their distance.

    The rate is elastic_force / workers.
    """

    answers_first = True

    def __init__(self, rate: float) -> None:
        self._rate = np.float32(rate)
        self._distance = _Buffer()

    def to_send(self, own: Floats, fetched: Floats) -> Floats:
        """Returns the worker's weights."""
        del fetched
        return own

    def at_master(self, centre: Floats, sent: Floats, staleness: int) -> None:
        """Centre += rate * (sent - centre)."""
        del staleness
        _towards(centre, sent, self._rate, self._distance.like(centre))

    def at_worker(self, own: Floats, centre: Floats) -> None:
        """Own -= rate * (own - centre)."""
        _towards(own, centre, self._rate, self._distance.like(own))


class Downpour(_Stateless):
    """Workers send how far they moved, or summed gradients; the master's optimizer applies it.

    Args:
        optimizer: Of the master, for the trainable weights.
        workers: That exchange with this master.
        trainable: Leading entries of the buffer that the optimizer moves.
        damping: Weight of an update: 1 / max(1, staleness), 1 / workers, or 1.
        sends: ``weights``: fetched - own. ``gradients``: the same divided by `worker_rate`, which is
            the sum of the worker's gradients if its optimizer is plain SGD with that rate.
        worker_rate: Learning rate of the worker.
        synchronous: Apply the mean of one update per worker, undamped, instead of each update.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        *,
        workers: int,
        trainable: int,
        damping: Damping = "staleness",
        sends: Sent = "weights",
        worker_rate: float = 1.0,
        synchronous: bool = False,
    ) -> None:
        self.pending = 0
        self._optimizer = optimizer
        self._workers = self._expected = workers
        self._trainable = trainable
        self._damping = damping
        self._scale = np.float32(1.0 if sends == "weights" else 1.0 / worker_rate)
        self._synchronous = synchronous
        self._sent, self._sum, self._scratch = _Buffer(), _Buffer(), _Buffer()

    def to_send(self, own: Floats, fetched: Floats) -> Floats:
        """Returns (fetched - own) * scale, and the worker's statistics."""
        sent, k = self._sent.like(own), self._trainable
        np.subtract(fetched[:k], own[:k], out=sent[:k])
        if self._scale != 1:
            np.multiply(sent[:k], self._scale, out=sent[:k])
        sent[k:] = own[k:]
        return sent

    def at_master(self, centre: Floats, sent: Floats, staleness: int) -> None:
        """Lets the optimizer apply the damped update; a synchronous master collects it first."""
        if not self._synchronous:
            self._apply(centre, sent, self._factor(staleness), 1.0 / self._workers)
            return
        total = self._sum.like(centre)
        if self.pending:
            np.add(total, sent, out=total)
        else:
            total[:] = sent
        self.pending += 1
        self._apply_full_round(centre)

    def worker_ended(self, centre: Floats) -> None:
        """Applies the round if it waited for this worker only."""
        self._expected -= 1
        self._apply_full_round(centre)

    def at_worker(self, own: Floats, centre: Floats) -> None:
        """Own = centre."""
        own[:] = centre

    def state(self) -> State:
        """Returns the slots of the optimizer, and the updates collected so far."""
        found = dict(self._optimizer.state())
        if self.pending:
            found["sum"] = self._sum.array
            found["pending"] = np.array([self.pending], np.float32)
        return found

    def restore(self, state: State) -> None:
        """Continues from `state`."""
        if "sum" in state:
            self._sum.array = np.array(state["sum"], np.float32)
            self.pending = int(state["pending"][0])
        self._optimizer.restore(
            {name: value for name, value in state.items() if name not in {"sum", "pending"}}
        )

    def _factor(self, staleness: int) -> float:
        if self._damping == "staleness":
            return 1.0 / max(1, staleness)
        return 1.0 / self._workers if self._damping == "mean" else 1.0

    def _apply_full_round(self, centre: Floats) -> None:
        if self.pending and self.pending >= self._expected:
            mean = self._sum.array
            np.divide(mean, np.float32(self.pending), out=mean)
            self.pending = 0
            self._apply(centre, mean, 1.0, 1.0)

    def _apply(self, centre: Floats, update: Floats, factor: float, share: float) -> None:
        k, scratch = self._trainable, self._scratch.like(centre)
        self._optimizer.apply(centre[:k], update[:k], factor)
        _towards(centre[k:], update[k:], np.float32(share), scratch[k:])


class Gem(_Stateless):
    """Workers scale their change so that all together have the energy of one with momentum.

    u is the worker's change in its steps, m = momentum * m + u, and c the change of the centre
    between the worker's last two fetches. The worker sends, and adds to the fetched centre,
    u * min(5, max(0, (kappa |m| - |c|) / |u|)), elementwise. With the c of the exchange before, which
    would save a message, the rule diverges (`docs/parallel-training.md`).

    Args:
        workers: That exchange with this master.
        trainable: Leading entries of the buffer that are scaled.
        momentum: Of the sequential training whose energy is the limit.
        kappa: Factor of that energy.
    """

    fetches_first = True
    _MOST, _EPSILON = np.float32(5.0), np.float32(1e-12)

    def __init__(
        self, *, workers: int, trainable: int, momentum: float = 0.9, kappa: float = 2.0
    ) -> None:
        self._share, self._trainable = np.float32(1.0 / workers), trainable
        self._mu, self._kappa = np.float32(momentum), np.float32(kappa)
        self._kept = {name: _Buffer() for name in ("momentum", "previous", "start")}
        self._sent, self._energy, self._scratch = _Buffer(), _Buffer(), _Buffer()

    def begin(self, centre: Floats) -> None:
        """Notes the weights from which the worker's first steps begin."""
        head = centre[: self._trainable]
        self._kept["start"].like(head)[:] = head
        self._kept["previous"].like(head)[:] = head

    def to_send(self, own: Floats, fetched: Floats) -> Floats:
        """Returns the scaled change of the worker, and its statistics."""
        sent, k = self._sent.like(own), self._trainable
        change, head = sent[:k], fetched[:k]
        momentum, previous, start = (buffer.like(head) for buffer in self._kept.values())
        energy, scratch = self._energy.like(head), self._scratch.like(own)[:k]
        np.subtract(own[:k], start, out=change)
        np.multiply(momentum, self._mu, out=momentum)
        np.add(momentum, change, out=momentum)
        np.abs(momentum, out=energy)
        np.multiply(energy, self._kappa, out=energy)
        np.subtract(head, previous, out=scratch)
        previous[:] = head
        np.abs(scratch, out=scratch)
        np.subtract(energy, scratch, out=energy)
        np.abs(change, out=scratch)
        np.add(scratch, self._EPSILON, out=scratch)
        np.divide(energy, scratch, out=energy)
        np.clip(energy, 0, self._MOST, out=energy)
        np.multiply(change, energy, out=change)
        sent[k:] = own[k:]
        return sent

    def at_master(self, centre: Floats, sent: Floats, staleness: int) -> None:
        """Centre += sent."""
        del staleness
        self._add(centre, sent)

    def at_worker(self, own: Floats, centre: Floats) -> None:
        """Own = centre + what was sent."""
        own[:] = centre
        self._add(own, self._sent.like(own))
        head = own[: self._trainable]
        self._kept["start"].like(head)[:] = head

    def state(self) -> State:
        """Returns momentum, the centre of the last fetch, and the start of the steps, of a worker."""
        return {name: each.array for name, each in self._kept.items() if each.array.size}

    def restore(self, state: State) -> None:
        """Continues from `state`."""
        for name, value in state.items():
            self._kept[name].array = np.array(value, np.float32)

    def _add(self, weights: Floats, sent: Floats) -> None:
        k = self._trainable
        np.add(weights[:k], sent[:k], out=weights[:k])
        _towards(weights[k:], sent[k:], self._share, self._scratch.like(weights)[k:])


def make_rule(
    parallel: ParallelConfig, *, workers: int, trainable: int, learning_rate: float
) -> UpdateRule:
    """Makes the rule between workers and their master.

    Args:
        parallel: Mode and its options.
        workers: That exchange with the same master.
        trainable: Leading entries of the flat buffer that are trainable; statistics follow.
        learning_rate: Of the worker's optimizer.
    """
    if parallel.mode == "easgd":
        return Easgd(parallel.elastic_force / workers)
    if parallel.mode == "gem":
        return Gem(
            workers=workers,
            trainable=trainable,
            momentum=parallel.momentum,
            kappa=parallel.kappa,
        )
    moves_like_workers = parallel.master_optimizer == "sgd" and parallel.sends == "weights"
    rate = parallel.master_learning_rate or (1.0 if moves_like_workers else learning_rate)
    return Downpour(
        make_optimizer(parallel.master_optimizer, rate),
        workers=workers,
        trainable=trainable,
        damping=parallel.damping,
        sends=parallel.sends,
        worker_rate=learning_rate,
        synchronous=parallel.synchronous,
    )


def make_rule_of_masters(
    parallel: ParallelConfig, *, workers: int, trainable: int, learning_rate: float
) -> UpdateRule:
    """Makes the rule between masters and rank 0 above them: that of their workers.

    Under Downpour rank 0 adds how far a master moved, because the optimizer of that master has
    applied the gradients.

    Args:
        parallel: Mode and its options.
        workers: Masters that exchange with rank 0.
        trainable: Leading entries of the flat buffer that are trainable; statistics follow.
        learning_rate: Of the workers' optimizer.
    """
    plain = {"sends": "weights", "master_optimizer": "sgd", "master_learning_rate": None}
    return make_rule(
        parallel.model_copy(update=plain),
        workers=workers,
        trainable=trainable,
        learning_rate=learning_rate,
    )


class _Buffer:
    """An array that is allocated as zeros at its first use."""

    def __init__(self) -> None:
        self.array: Floats = np.empty(0, np.float32)

    def like(self, other: Floats) -> Floats:
        """Returns the array, with the shape of `other`."""
        if self.array.shape != other.shape:
            self.array = np.zeros(other.shape, np.float32)
        return self.array


def _towards(moved: Floats, target: Floats, rate: np.float32, scratch: Floats) -> None:
    """Moves an array by `rate` of its distance to another."""
    np.subtract(target, moved, out=scratch)
    np.multiply(scratch, rate, out=scratch)
    np.add(moved, scratch, out=moved)
