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

from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.progress import Silent
from cloudgan.parallel import train_ranks
from cloudgan.parallel.centre import Centre
from cloudgan.parallel.master import Master
from cloudgan.schema.run_folder import RunFolder
from cloudgan.training.checkpoint import Checkpoints
from parallel.world_in_turns import Loop, Sum, work

PHASES = ("start", "exchange", "save", "validation")
SHOWERS = 320

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


class Networks(Sum):
    has_stepped = False

    def write(self, weights):
        super().write(weights)
        if self.has_stepped:
            die_in("exchange")


class DyingLoop(Loop):
    def advance(self):
        time.sleep(0.002)
        super().advance()
        networks.has_stepped = True
        if self.rank.is_leader:
            write_atomic(notes / f"step-{self.rank.worker}", str(self.step).encode())
        if is_validating.exists():
            die_in("validation")

    def save(self):
        die_in("save")
        super().save()


def dying_work(rank, *_inputs):
    die_in("start")
    networks.has_stepped = rank.first_step > 0
    work(rank, networks=networks, make_loop=DyingLoop)


networks = Networks(folder.read_config(), SHOWERS)


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


train_ranks._worker, train_ranks._measurer = dying_work, measurer
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
