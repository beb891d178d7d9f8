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
from cloudgan.bench.sleeping_ranks import _arrays, _joining
from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.progress import Silent
from cloudgan.parallel import centre, lower_master, master
from cloudgan.parallel.exchange import Networks, WorkerExchange
from cloudgan.parallel.flat_weights import FlatLayout
from cloudgan.parallel.place import PREFIX, Place
from cloudgan.parallel.update_rules import make_rule
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


class Loop:
    def __init__(self, place, step, weights):
        self.step, self.weights, self.place = step, weights, place
        self.train_seconds, self.epoch_seconds = 0.0, 0.0
        self.loss_sums = np.zeros((len(PASSES), len(loss_columns())))
        self.path = centre.rank_folder(folder, place.leader).checkpoints
        self.exchange = None

    def advance(self):
        time.sleep(0.002)
        self.weights += 1
        self.step += 1
        self.train_seconds += 0.002
        self.epoch_seconds = self.train_seconds
        if self.place.is_leader:
            write_atomic(notes / f"step-{self.place.number}", str(self.step).encode())
        if is_validating.exists():
            die_in("validation")

    def save(self):
        die_in("save")
        if self.place.is_leader:
            self.write()

    def write(self):
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "new").open("wb") as file:
            np.savez(file, weights=self.weights, **self.exchange.arrays())
        (self.path / "new").rename(self.path / checkpoint_name(self.step))


def work(rank, group, steps, *, has_ended):
    place = Place(rank.world, group, rank.layout, rank.role)
    die_in("start")
    parallel, number = rank.config.parallel, place.number
    loop = Loop(place, steps[number] if steps else 0, np.zeros(SIZE, np.float32))
    flat = FlatLayout(("generator/000/kernel",), ((SIZE,),), 1)
    served = len(place.layout.children(place.master))
    rule = make_rule(parallel, workers=served, trainable=SIZE, learning_rate=1.0)
    if steps:
        with np.load(loop.path / checkpoint_name(loop.step)) as saved:
            loop.weights[:] = saved["weights"]
            rule.restore({name.removeprefix(PREFIX): saved[name] for name in saved.files})

    def read(into):
        into[:] = loop.weights

    def write(found):
        loop.weights[:] = found
        if loop.step:
            die_in("exchange")

    networks = Networks(
        SIZE,
        read,
        write,
        None,
        lambda: _joining(flat, SHOWERS),
        lambda: _arrays(loop.weights),
    )
    every = parallel.sync_every
    exchange = WorkerExchange(place, networks, rule, rank.profile, every=every, is_new=not steps)
    loop.exchange = exchange
    if not steps and place.is_leader:
        loop.write()  # as a training run does before it joins
    exchange.begin(loop.step)
    reason, limit = "max_steps", rank.config.training.max_steps
    own = -(-(limit - number) // place.layout.workers)
    try:
        while loop.step < own:
            loop.advance()
            exchange.after_block(loop)
    except StopTraining as stop:
        reason = stop.reason
    exchange.before_last_save(loop)
    loop.save()
    exchange.leave(loop.step, reason)


def measurer(config, shards):
    """Returns a validation that lasts until the victim has died in it, and then ends at once."""
    del config, shards

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
if orders["is_master"]:
    for kind in (master.Master, lower_master.LowerMaster):
        kind._start = dying(kind._start, "start")
    centre.Centre.move = dying(centre.Centre.move, after=("exchange", "validation"))
    Checkpoints.save = dying(Checkpoints.save, after=("save",))

train_ranks.train_rank(
    folder.read_config(),
    folder,
    Silent(),
    shards=lambda config: folder.path,
    prepare=lambda config: nullcontext(),
    start_time=time.perf_counter(),
)
