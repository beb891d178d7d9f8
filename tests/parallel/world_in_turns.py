"""A master and workers without TensorFlow as threads that run in turns; their training is arithmetic."""

from __future__ import annotations

from functools import partial

import numpy as np

from cloudgan.bench.sleeping_ranks import _arrays, _joining
from cloudgan.core.progress import Silent
from cloudgan.parallel.centre import find_point, rank_checkpoints, rank_folder
from cloudgan.parallel.communicator import Alone
from cloudgan.parallel.exchange import Networks, WorkerExchange
from cloudgan.parallel.flat_weights import FlatLayout
from cloudgan.parallel.layout import make_layout
from cloudgan.parallel.master import Master
from cloudgan.parallel.place import PREFIX, Place
from cloudgan.parallel.profile import Profile
from cloudgan.parallel.update_rules import make_rule
from cloudgan.schema.config import RunConfig
from cloudgan.schema.losses import PASSES, loss_columns
from cloudgan.schema.run_folder import RunFolder, checkpoint_name
from cloudgan.training.checkpoint import read_checkpoint
from cloudgan.training.stopping import StopFlag, StopTraining

NAME = "generator/000/kernel"
FLAT = FlatLayout((NAME,), ((3,),), 1)


def config_of(*, workers, steps, training=None, checkpoint=None, **parallel):
    return RunConfig.model_validate(
        {
            "model": {"preset": "smoke"},
            "training": {"max_steps": steps} | (training or {}),
            "checkpoint": {"every_steps": 10**6} | (checkpoint or {}),
            "parallel": {"mode": "downpour", "ranks": workers + 1} | parallel,
        }
    )


class Loop:
    """Training of one worker: each step has a result of its own."""

    def __init__(self, folder, number, step, weights):
        self.number, self.step, self.weights = number, step, weights
        self.folder, self.exchange = folder, None
        self.train_seconds = self.epoch_seconds = 0.0
        self.loss_sums = np.zeros((len(PASSES), len(loss_columns())))

    def advance(self):
        self.step += 1
        self.weights += np.sin(self.weights + self.step + 10 * self.number).astype(np.float32)

    def save(self):
        path = self.folder / checkpoint_name(self.step)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".new").open("wb") as file:
            np.savez(file, weights=self.weights, **self.exchange.arrays())
        path.with_suffix(".new").rename(path)


def run_world(turns, path, config, *, step=lambda rank, loop: None, progress=None):
    """Runs a world to its end; returns the outcome of its master.

    Args:
        turns: Of its ranks.
        path: Folder of the run; a run that is there is continued.
        config: Of the run.
        step: Called by each worker before each step.
        progress: Of the master.
    """
    folder = RunFolder(path)
    folder.create()
    layout = make_layout(turns.size, config.parallel)

    def act(world):
        role = layout.roles[world.rank]
        found = world.gather(rank_checkpoints(config, folder, world.rank).all_steps())
        workers = [found[layout.group_of(worker)[0]] for worker in range(layout.workers)]
        point = find_point(config, folder, workers) if world.rank == 0 else None
        steps = world.gather(point[0].state.worker_steps if point else None)[0]
        if not role.is_master:
            return work(Place(world, Alone(), layout, role), steps)
        return Master(
            world,
            layout,
            config,
            folder,
            flag=StopFlag(),
            profile=Profile(),
            progress=progress or Silent(),
            start_time=0.0,
            resumed=point,
            validator=None,
        ).run()

    def work(place, steps):
        own = rank_checkpoints(config, folder, place.leader)
        first, weights = (steps or [0] * layout.workers)[place.number], np.zeros(3, np.float32)
        rule = make_rule(config.parallel, workers=layout.workers, trainable=3, learning_rate=1.0)
        if steps:
            own.remove_later(first)
            with np.load(own.fetch(first)) as saved:
                weights[:] = saved["weights"]
                names = [name for name in saved.files if name.startswith(PREFIX)]
                rule.restore({name.removeprefix(PREFIX): saved[name] for name in names})
        networks = Networks(
            *(3, partial(np.copyto, src=weights), partial(np.copyto, weights), None),
            *(lambda: _joining(FLAT, 10**6), lambda: _arrays(weights)),
        )
        exchange = WorkerExchange(
            *(place, networks, rule, Profile()), every=config.parallel.sync_every, is_new=not steps
        )
        loop = Loop(rank_folder(folder, place.leader).checkpoints, place.number, first, weights)
        loop.exchange, reason = exchange, "max_steps"
        if not steps:
            loop.save()
        exchange.begin(loop.step)
        try:
            while loop.step < -(-(config.training.max_steps - place.number) // layout.workers):
                step(place.world, loop)
                loop.advance()
                exchange.after_block(loop)
        except StopTraining as stop:
            reason = stop.reason
        exchange.before_last_save(loop)
        loop.save()
        exchange.leave(loop.step, reason)

    return turns.run(act)[0]


def centre(path):
    """Returns step and weights of the newest checkpoint of a run."""
    newest = max(RunFolder(path).checkpoints.glob("step-*.npz"))
    found = read_checkpoint(newest)
    return found.state.step, found.arrays[NAME]
