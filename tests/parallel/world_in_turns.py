"""A master and workers without TensorFlow as threads that run in turns; their training is arithmetic."""

from __future__ import annotations

import numpy as np

from cloudgan.bench.sleeping_ranks import SleepingNetworks
from cloudgan.core.progress import Silent
from cloudgan.parallel.master import Master
from cloudgan.parallel.rank import Rank
from cloudgan.parallel.run_keeper import RunKeeper
from cloudgan.parallel.worker import PREFIX, Parent, Worker
from cloudgan.ranks.flat import FlatLayout
from cloudgan.schema.config import RunConfig
from cloudgan.schema.losses import PASSES, loss_columns
from cloudgan.schema.run_folder import RunFolder, checkpoint_name
from cloudgan.training.checkpoint import read_checkpoint
from cloudgan.training.stopping import StopFlag, StopTraining

NAME = "generator/000/kernel"


def config_of(*, workers, steps, training=None, checkpoint=None, **parallel):
    return RunConfig.model_validate(
        {
            "model": {"preset": "smoke"},
            "training": {"max_steps": steps} | (training or {}),
            "checkpoint": {"every_steps": 10**6} | (checkpoint or {}),
            "parallel": {"mode": "downpour", "ranks": workers + 1} | parallel,
        }
    )


class Sum(SleepingNetworks):
    """Three weights that are trained and two statistics; averaged if the preset says so."""

    def __init__(self, config, showers=10**6):
        super().__init__(np.array([0, 0, 0, 1, 1], np.float32), showers)
        self.flat = FlatLayout((NAME, "generator/001/mean"), ((3,), (2,)), 1)
        self.averages = config.model.ema_decay > 0

    def arrays(self):
        views = super().arrays()
        return views | ({f"ema_{name}": a for name, a in views.items()} if self.averages else {})

    def described(self):
        return super().described().model_copy(update={"recalibrates": self.averages})

    def recalibrate(self, average):
        return 2 * average


class Loop:
    """Training of one worker: each step has a result of its own."""

    def __init__(self, rank, worker, weights):
        self.rank, self.worker, self.weights = rank, worker, weights
        self.step, self.folder = rank.first_step, rank.own_folder.checkpoints
        self.train_seconds = self.epoch_seconds = 0.0
        self.loss_sums = np.zeros((len(PASSES), len(loss_columns())))

    def advance(self):
        self.step += 1
        self.weights += np.sin(self.weights + self.step + 10 * self.rank.worker).astype(np.float32)
        self.loss_sums += self.step + self.rank.worker

    def save(self):
        if not self.rank.is_leader:
            return
        path = self.folder / checkpoint_name(self.step)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".new").open("wb") as file:
            np.savez(file, weights=self.weights, **self.worker.arrays())
        path.with_suffix(".new").rename(path)


def first_weight(weights):
    """The metric and the showers of a validation of the centre."""
    return {"metric": float(weights[0][0])}, 1


def run_world(
    turns,
    path,
    config,
    *,
    step=lambda rank, loop: None,
    progress=None,
    showers=10**6,
    make_loop=Loop,
):
    """Runs a world to its end; returns what its ranks return.

    Args:
        turns: Of its ranks.
        path: Folder of the run; a run that is there is continued.
        config: Of the run.
        step: Called by each worker before each step.
        progress: Of rank 0.
        make_loop: Of a worker's training.
        showers: Of an epoch; with `validate_every` the centre's first weight is the metric.

    Returns:
        The outcome on rank 0; of each worker its last step and weights.
    """
    folder = RunFolder(path)
    folder.create()

    def act(world):
        rank = Rank.join(world, config, folder)
        if not rank.role.is_master:
            return work(rank, step, networks=Sum(config, showers), make_loop=make_loop)
        if rank.role.parent is not None:
            return Master(rank, StopFlag(), Parent(rank)).run()
        validator = (lambda: first_weight) if config.training.validates_every else None
        keeper = RunKeeper(rank, progress or Silent(), start_time=0.0, validator=validator)
        return Master(rank, StopFlag(), keeper).run()

    return turns.run(act)


def work(rank, step=lambda world, loop: None, *, networks=None, make_loop=Loop):
    """Trains one rank's part of the run, from its checkpoint if it has one."""
    networks, first, config = networks or Sum(rank.config), rank.first_step, rank.config
    rule, own = {}, rank.checkpoints()
    if rank.steps:
        if rank.is_leader:
            own.remove_later(first)
        with np.load(own.fetch(first)) as saved:
            networks.write(saved["weights"])
            names = [name for name in saved.files if name.startswith(PREFIX)]
            rule = {name.removeprefix(PREFIX): saved[name] for name in names}
    worker = Worker(rank, networks, rule)
    loop, reason = make_loop(rank, worker, networks.weights), "max_steps"
    if not rank.steps:
        Loop.save(loop)  # as a training run does before it joins
    worker.begin(loop.step)
    try:
        while loop.step < -(-(config.training.max_steps - rank.worker) // rank.layout.workers):
            step(rank.world, loop)
            loop.advance()
            worker.after_block(loop)
    except StopTraining as stop:
        reason = stop.reason
    worker.before_last_save(loop)
    loop.save()
    worker.leave(loop.step, reason)
    return loop.step, networks.weights.tobytes()


def centre(path):
    """Returns step and weights of the newest checkpoint of a run."""
    newest = max(RunFolder(path).checkpoints.glob("step-*.npz"))
    found = read_checkpoint(newest)
    return found.state.step, found.arrays[NAME]
