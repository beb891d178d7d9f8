"""A rank as `cloudgan train` runs it, but its steps sleep: python killed_ranks_program.py ORDERS.json.

The rank in the orders kills itself with SIGKILL in each phase in turn: at its start, in an exchange, in a
save, and while rank 0 validates; each time after a newer checkpoint than at the last time. It notes the
newest checkpoint and the steps of all workers first.
"""

import json
import os
import signal
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from cloudgan.api import train_ranks
from cloudgan.bench.sleeping_ranks import SleepingNetworks
from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.progress import Silent
from cloudgan.parallel.centre import Centre
from cloudgan.parallel.master import Master
from cloudgan.parallel.worker import PREFIX, Worker
from cloudgan.schema.losses import PASSES, loss_columns
from cloudgan.schema.run_folder import RunFolder, checkpoint_name
from cloudgan.training.checkpoint import Checkpoints
from cloudgan.training.stopping import StopTraining

PHASES = ("start", "exchange", "save", "validation")
SIZE, SHOWERS = 4, 320

RANK = int(os.environ["PMI_RANK"])
orders = json.loads(Path(sys.argv[1]).read_text())
folder, notes = RunFolder(Path(orders["folder"])), Path(orders["notes"])
is_validating = notes / "validating"
(notes / f"pid-{os.getpid()}").touch()


def newest():
    return max(folder.saved_steps(), default=-1)


def kills():
    return [json.loads(path.read_text()) for path in sorted(notes.glob("kill-[0-9]"))]


def is_next(phase):
    done = kills()
    if len(done) == len(PHASES) or phase != PHASES[len(done)]:
        return False
    return phase == "start" or newest() > max(0, done[-1]["newest"])


def die_in(phase):
    if orders["victim"] != RANK or not is_next(phase):
        return
    steps = [int(path.read_text()) for path in notes.glob("step-[0-9]")]
    note = {"phase": phase, "newest": newest(), "steps": sum(steps)}
    write_atomic(notes / f"kill-{len(kills())}", json.dumps(note).encode())
    is_validating.unlink(missing_ok=True)
    os.kill(os.getpid(), signal.SIGKILL)


def dying(function, *before, after=()):
    """Returns the function with a death in these phases before and after it."""

    def call(*arguments, **keywords):
        for phase in before:
            die_in(phase)
        found = function(*arguments, **keywords)
        for phase in after:
            if phase != "validation" or is_validating.exists():
                die_in(phase)
        return found

    return call


class Networks(SleepingNetworks):
    def write(self, weights):
        super().write(weights)
        if self.loop and self.loop.step:
            die_in("exchange")

    loop = None


class Loop:
    def __init__(self, rank, worker, weights):
        self.step, self.weights, self.rank, self.worker = rank.first_step, weights, rank, worker
        self.train_seconds, self.epoch_seconds = 0.0, 0.0
        self.loss_sums = np.zeros((len(PASSES), len(loss_columns())))
        self.path = rank.own_folder.checkpoints

    def advance(self):
        time.sleep(0.002)
        self.weights += 1
        self.step += 1
        self.train_seconds += 0.002
        self.epoch_seconds = self.train_seconds
        if self.rank.is_leader:
            write_atomic(notes / f"step-{self.rank.worker}", str(self.step).encode())
        if is_validating.exists():
            die_in("validation")

    def save(self):
        die_in("save")
        if self.rank.is_leader:
            self.write()

    def write(self):
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "new").open("wb") as file:
            np.savez(file, weights=self.weights, **self.worker.arrays())
        (self.path / "new").rename(self.path / checkpoint_name(self.step))


def work(rank, *_inputs):
    die_in("start")
    networks, rule = Networks(np.zeros(SIZE, np.float32), SHOWERS), {}
    if rank.steps:
        path = rank.own_folder.checkpoints / checkpoint_name(rank.first_step)
        with np.load(path) as saved:
            networks.weights[:] = saved["weights"]
            names = [name for name in saved.files if name.startswith(PREFIX)]
            rule = {name.removeprefix(PREFIX): saved[name] for name in names}
    worker = Worker(rank, networks, rule)
    networks.loop = loop = Loop(rank, worker, networks.weights)
    if not rank.steps and rank.is_leader:
        loop.write()  # as a training run does before it joins
    worker.begin(loop.step)
    reason, limit = "max_steps", rank.config.training.max_steps
    own = -(-(limit - rank.worker) // rank.layout.workers)
    try:
        while loop.step < own:
            loop.advance()
            worker.after_block(loop)
    except StopTraining as stop:
        reason = stop.reason
    worker.before_last_save(loop)
    loop.save()
    worker.leave(loop.step, reason)


def measurer(config, store):
    """Returns a validation that lasts until the victim has died in it, and then ends at once."""
    del config, store

    def measure(weights):
        deadline = time.monotonic() + 60
        while is_next("validation"):
            assert time.monotonic() < deadline
            is_validating.touch()
            die_in("validation")
            time.sleep(0.005)
        return {"metric": float(weights[0][0])}, 1

    return measure


train_ranks._worker, train_ranks._measurer = work, measurer
train_ranks.find_showers = lambda config, folder: (config, folder.path)
train_ranks.as_store = lambda showers, folder, progress: showers
if orders["is_master"]:
    Master.run = dying(Master.run, "start")
    Centre.move = dying(Centre.move, after=("exchange", "validation"))
    Checkpoints.save = dying(Checkpoints.save, after=("save",))

train_ranks.train_rank(
    folder.read_config(),
    folder,
    Silent(),
    prepare=lambda config: nullcontext(),
    start_time=time.perf_counter(),
)
