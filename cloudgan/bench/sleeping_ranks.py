"""Worlds whose workers sleep instead of training: measures exchange and master, whatever the cores.

Each rank runs the master or the exchange of a training run, without TensorFlow. Rank 0 returns what it measured;
most of it is what the record of the run says.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from cloudgan.bench.processes import run_ranks
from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.clock import utc_now
from cloudgan.core.hardware import peak_memory_bytes, this_machine
from cloudgan.core.progress import Silent
from cloudgan.data.summary import TrainingSummary
from cloudgan.parallel.master import Master
from cloudgan.parallel.messages import Described
from cloudgan.parallel.rank import Rank
from cloudgan.parallel.run_keeper import RunKeeper
from cloudgan.parallel.trace import Profile, most_spans, write_trace
from cloudgan.parallel.worker import Networks, Parent, Worker
from cloudgan.ranks.flat import FlatLayout
from cloudgan.ranks.mpi import World
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig
from cloudgan.schema.losses import PASSES, loss_columns
from cloudgan.schema.record import Numerics, Started
from cloudgan.schema.run_folder import RunFolder, checkpoint_name
from cloudgan.schema.stop_criterion import METRIC
from cloudgan.training.stopping import StopFlag, StopTraining

_NAME = "generator/000/kernel"
_LIMIT_SECONDS = 120.0


def run_world(
    folder: Path, config: RunConfig, *, values: int, sleep_seconds: float, showers: int = 10**9
) -> dict[str, Any]:
    """Runs one world with float32 `values` as weights in a new folder.

    Of `config` count ranks, rule, intervals and the limit of steps; with `validate_every` the quality metric of
    a centre is its first weight. An epoch has `showers`; by default none ends.

    Returns:
        `workers`; `steps` of all of them and their `steps_per_second`, and `speedup`, this over that of one that
        only sleeps; `updates` of rank 0; means per step and exchange as a worker sees them (a busy machine wakes a
        process late, so a step is longer than its sleep); the master's service and its CPU time per update, memory,
        and `waiting_cpu_share`; `staleness`, the mean number of updates between fetch and update; `centre`, the first
        value of the weights at the end.
    """
    found: dict[str, Any] = run_ranks(
        "cloudgan.bench.sleeping_ranks:run_rank",
        config.parallel.ranks or 0,
        limit=_LIMIT_SECONDS + (config.training.max_steps or 0) * sleep_seconds,
        remedy="Omit --workers",
        run=str(folder),
        config=config.model_dump(mode="json"),
        values=values,
        sleep_seconds=sleep_seconds,
        showers=showers,
    )
    return found


def run_rank(
    world: World, *, run: str, config: Any, values: int, sleep_seconds: float, showers: int
) -> dict[str, Any] | None:
    """Runs this process' rank; arguments, and what rank 0 returns, are those of `run_world`."""
    asked, folder, measured = RunConfig.model_validate(config), RunFolder(run), None
    profile = Profile(most_spans(world.size) if asked.parallel.trace else 0)
    rank = Rank.join(world, asked, folder, profile)
    if not rank.role.is_master:
        networks = SleepingNetworks(np.zeros(values, np.float32), showers)
        world.gather(_train(rank, networks, sleep_seconds))
    elif rank.role.parent is not None:
        with StopFlag() as flag:
            Master(rank, flag, Parent(rank)).run()
        world.gather(None)
    else:
        folder.create()
        began = time.perf_counter()
        measure = lambda weights: ({METRIC: float(weights[0][0])}, 1)
        validator = (lambda: measure) if asked.training.validates_every else None
        with StopFlag() as flag:
            keeper = RunKeeper(rank, Silent(), start_time=began, validator=validator)
            master = Master(rank, flag, keeper)
            outcome = master.run()
        assert outcome  # noqa: S101  of rank 0
        workers = [found for found in world.gather(None) if found]
        lines = record.read(folder.record_file).lines
        own = [line for line in lines if line.kind == "exchanged" and line.rank == 0]
        stale = sum(int(age) * count for line in own for age, count in line.staleness.items())
        speed = sum(each["steps"] / each["seconds"] for each in workers)
        step = mean(each["step"] for each in workers)
        measured = {
            "workers": rank.layout.workers,
            "steps": outcome.step,
            "updates": master.updates,
            "steps_per_second": speed,
            "step_seconds": step,
            "exchange_seconds": mean(each["exchange"] for each in workers),
            "service_seconds": sum(line.seconds["update"] for line in own) / master.updates,
            "service_cpu_seconds": master.service_cpu / master.updates,
            "waiting_cpu_share": master.waiting_cpu / sum(line.seconds["wait"] for line in own),
            "peak_memory_bytes": peak_memory_bytes(),
            "staleness": stale / master.updates,
            "speedup": speed * step,
        }
        with np.load(outcome.checkpoint, allow_pickle=False) as archive:
            measured["centre"] = float(archive[_NAME][0])
    if profile.has_spans:
        write_trace(world, rank.layout, folder.trace_file, profile)
    return measured


class SleepingNetworks(Networks):
    """Weights of a run that trains nothing."""

    learning_rate = 1.0

    def __init__(self, weights: Any, showers: int) -> None:
        """Exchanges `weights`; `showers` are those of an epoch."""
        self.weights, self._showers = weights, showers
        self.flat = FlatLayout((_NAME,), (weights.shape,), 1)

    def read(self, into: Any) -> None:
        """Copies the weights into a buffer."""
        into[:] = self.weights

    def write(self, weights: Any) -> None:
        """Sets the weights."""
        self.weights[:] = weights

    def arrays(self) -> dict[str, Any]:
        """Returns the weights."""
        return self.flat.views(self.weights)

    def described(self) -> Described:
        """Returns what the first worker tells its master."""
        machine = this_machine()
        numerics = Numerics(
            processor=machine.processor,
            device="CPU",
            precision="float32",
            **dict.fromkeys(("threads", "replicas", "workers"), 1),
            **dict.fromkeys(("math_library", "tensorflow", "keras"), "none"),
            global_batch_size=8,
        )
        started = Started(
            **dict.fromkeys(("config_hash", "git_commit"), ""),
            time=utc_now(),
            step=0,
            startup_seconds=0.0,
            learning_rate=self.learning_rate,
            training_showers=self._showers,
            held_out_showers=0,
            versions={},
            notes=(),
            hardware=machine,
            numerics=numerics,
            strategy="sleep",
            loop="custom",
        )
        summary = TrainingSummary(
            count=self._showers,
            sampled=0,
            layer_fraction=(),
            contained_fraction=1,
            **dict.fromkeys(("energy_range_gev", "mtheta_range_rad"), (0, 1)),
            **dict.fromkeys(("theta_range_rad", "angle_fit")),
            mean_image_sum_per_unit=1,
        )
        return Described(flat=self.flat, started=started, summary=summary, recalibrates=False)


class _SleepingLoop:
    """Steps that sleep, and add 1 to every weight."""

    def __init__(self, weights: Any, checkpoints: Path) -> None:
        self.step, self.train_seconds, self.epoch_seconds = 0, 0.0, 0.0
        self.loss_sums = np.zeros((len(PASSES), len(loss_columns())))
        self._weights, self._checkpoints = weights, checkpoints

    def advance(self, seconds: float) -> None:
        """Runs one step."""
        began = time.perf_counter()
        time.sleep(seconds)
        self._weights += 1
        self.step += 1
        self.train_seconds += time.perf_counter() - began
        self.epoch_seconds = self.train_seconds

    def save(self) -> None:
        """Writes a file of this step, as a worker's checkpoint."""
        self._checkpoints.mkdir(parents=True, exist_ok=True)
        write_atomic(self._checkpoints / checkpoint_name(self.step), b"")


def _train(rank: Rank, networks: SleepingNetworks, seconds: float) -> dict[str, float]:
    """Runs a worker's steps; returns their number and seconds, and the mean of a step and exchange."""
    every, limit = rank.config.parallel.sync_every, rank.config.training.max_steps or 1
    worker = Worker(rank, networks, {})
    loop = _SleepingLoop(networks.weights, rank.own_folder.checkpoints)
    worker.begin(0)
    reason: Any = "max_steps"
    own = -(-(limit - rank.worker) // rank.layout.workers)
    began = time.perf_counter()
    try:
        while loop.step < own:
            loop.advance(seconds)
            worker.after_block(loop)
    except StopTraining as stop:
        reason = stop.reason
    elapsed = time.perf_counter() - began
    worker.before_last_save(loop)
    loop.save()
    worker.leave(loop.step, reason)
    return {
        "steps": loop.step,
        "seconds": elapsed,
        "step": loop.train_seconds / loop.step,
        "exchange": (elapsed - loop.train_seconds) / max(1, loop.step // every),
    }
