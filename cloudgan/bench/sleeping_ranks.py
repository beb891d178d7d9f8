"""Worlds whose workers sleep instead of training: measures exchange and master, whatever the cores.

Each rank runs the master or the exchange of a training run, without TensorFlow; rank 0 writes what was
measured as JSON.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

import numpy as np

from cloudgan.bench.rank_world import as_rank, run_ranks
from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.clock import utc_now
from cloudgan.core.document import Document
from cloudgan.core.documents import read_json, write_json
from cloudgan.core.hardware import this_machine
from cloudgan.core.memory import peak_memory_bytes
from cloudgan.core.progress import Silent
from cloudgan.data.summary import TrainingSummary
from cloudgan.parallel.exchange import Networks, WorkerExchange
from cloudgan.parallel.flat_weights import FlatLayout
from cloudgan.parallel.layout import make_layout
from cloudgan.parallel.lower_master import LowerMaster
from cloudgan.parallel.master import Master
from cloudgan.parallel.place import Place
from cloudgan.parallel.profile import Profile
from cloudgan.parallel.trace import new_spans, write_trace
from cloudgan.parallel.update_rules import make_rule
from cloudgan.parallel.validator import Validator
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig
from cloudgan.schema.losses import PASSES, loss_columns
from cloudgan.schema.record import Numerics, Started
from cloudgan.schema.run_folder import RunFolder, checkpoint_name
from cloudgan.schema.stop_criterion import METRIC
from cloudgan.training.array_archive import as_archive
from cloudgan.training.stopping import StopFlag, StopTraining

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloudgan.parallel.communicator import Communicator
    from cloudgan.parallel.layout import Layout
    from cloudgan.parallel.update_rules import Floats
    from cloudgan.schema.record_line import StopReason

_NAME = "generator/000/kernel"
_BATCH = 8
_LIMIT_SECONDS = 120.0


class SleepRequest(Document):
    """What one world does.

    Attributes:
        folder: Of its run; new.
        config: Ranks, rule, exchange interval, checkpoint interval and limit of steps; with
            `validate_every` the quality metric of a centre is its first weight.
        values: Float32 values of the weights.
        sleep_seconds: Of one step.
        showers: Of an epoch; by default no epoch ends.
    """

    folder: Path
    config: RunConfig
    values: int
    sleep_seconds: float
    showers: int = 10**9


class MeasuredWorld(Document):
    """What one world measured.

    Attributes:
        workers: Number of workers.
        steps: Of all workers.
        updates: Applied by rank 0.
        steps_per_second: Of all workers.
        step_seconds: Mean of a step; a busy machine wakes a process late.
        exchange_seconds: Mean of an exchange, as the worker sees it.
        service_seconds: Mean of the master, per update.
        service_cpu_seconds: The CPU seconds in it.
        waiting_cpu_share: CPU seconds of the master per second in which it waits.
        peak_memory_bytes: Of the master.
        staleness: Mean number of updates between fetch and update.
        centre: First value of the weights at the end.
    """

    workers: int
    steps: int
    updates: int
    steps_per_second: float
    step_seconds: float
    exchange_seconds: float
    service_seconds: float
    service_cpu_seconds: float
    waiting_cpu_share: float
    peak_memory_bytes: int | None
    staleness: float
    centre: float

    @property
    def speedup(self) -> float:
        """Steps per second of all workers, over those of one that only sleeps."""
        return self.steps_per_second * self.step_seconds


def run_world(request: SleepRequest) -> MeasuredWorld:
    """Runs one world; its request and result are beside and in the folder of its run.

    Raises:
        ConfigError: mpiexec or mpi4py is not installed, or the kernel does not isolate their ports.
        CloudganError: The world failed.
    """
    ranks, steps = request.config.parallel.ranks or 0, request.config.training.max_steps or 0
    path = request.folder.parent / "request.json"
    write_json(path, request)
    limit = _LIMIT_SECONDS + steps * request.sleep_seconds
    run_ranks("cloudgan.bench.sleeping_ranks", path, ranks, limit=limit, remedy="Omit --workers")
    return read_json(_result_file(request.folder), MeasuredWorld)


class _SleepingLoop:
    """Steps that sleep, and add 1 to every weight."""

    def __init__(self, weights: Floats, checkpoints: Path) -> None:
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


def main(path: Path) -> None:
    """Runs this process' rank of the request in a file."""
    request = read_json(path, SleepRequest)
    as_rank(lambda world: _run(world, request))


def _result_file(folder: Path) -> Path:
    return folder / "measured.json"


def _run(world: Communicator, request: SleepRequest) -> None:
    layout = make_layout(world.size, request.config.parallel)
    role = layout.roles[world.rank]
    group = world.split(role.worker + 1 if role.worker is not None else 0)
    spans = new_spans(world.size) if request.config.parallel.trace else None
    profile = Profile(spans)
    if role.is_master and role.parent is not None:
        _serve_below(world, layout, request, profile)
    elif role.is_master:
        _serve(world, layout, request, profile)
    else:
        place = Place(world, group, layout, role)
        world.gather(_sleep(place, request, profile))
    if spans:
        write_trace(world, layout, RunFolder(request.folder).trace_file, spans)


def _serve(world: Communicator, layout: Layout, request: SleepRequest, profile: Profile) -> None:
    folder, training = RunFolder(request.folder), request.config.training
    folder.create()
    began = time.perf_counter()
    validator = None
    if training.validates_every:
        validator = Validator(lambda: _first_weight, start_time=began)
    with StopFlag() as flag:
        master = Master(
            world,
            layout,
            request.config,
            folder,
            flag=flag,
            profile=profile,
            progress=Silent(),
            start_time=began,
            resumed=None,
            validator=validator,
        )
        outcome = master.run()
    workers = [found for found in world.gather(None) if found is not None]
    lines = record.read(folder.record_file).lines
    own = [line for line in lines if line.kind == "exchanged" and line.rank == 0]
    stale = [int(value) * count for line in own for value, count in line.staleness.items()]
    with np.load(outcome.checkpoint, allow_pickle=False) as archive:
        centre = float(archive[_NAME][0])
    write_json(
        _result_file(request.folder),
        MeasuredWorld(
            workers=layout.workers,
            steps=outcome.step,
            updates=master.updates,
            steps_per_second=sum(each["steps"] / each["seconds"] for each in workers),
            step_seconds=mean(each["step"] for each in workers),
            exchange_seconds=mean(each["exchange"] for each in workers),
            service_seconds=sum(line.seconds["update"] for line in own) / master.updates,
            service_cpu_seconds=master.service_cpu / master.updates,
            waiting_cpu_share=master.waiting_cpu / sum(line.seconds["wait"] for line in own),
            peak_memory_bytes=peak_memory_bytes(),
            staleness=sum(stale) / master.updates,
            centre=centre,
        ),
    )


def _serve_below(
    world: Communicator, layout: Layout, request: SleepRequest, profile: Profile
) -> None:
    folder = RunFolder(request.folder)
    with StopFlag() as flag:
        LowerMaster(
            world, layout, request.config, folder, flag=flag, profile=profile, resumed=None
        ).run()
    world.gather(None)


def _first_weight(weights: Sequence[Any]) -> tuple[dict[str, float], int]:
    return {METRIC: float(weights[0][0])}, 1


def _sleep(place: Place, request: SleepRequest, profile: Profile) -> dict[str, float]:
    """Runs a worker's steps; returns their number and seconds, and the mean of a step and exchange."""
    parallel, limit = request.config.parallel, request.config.training.max_steps or 1
    weights = np.zeros(request.values, np.float32)
    flat = FlatLayout((_NAME,), ((request.values,),), 1)

    def read(into: Floats) -> None:
        into[:] = weights

    def write(found: Floats) -> None:
        weights[:] = found

    served = len(place.layout.children(place.master))
    rule = make_rule(parallel, workers=served, trainable=flat.size, learning_rate=1.0)
    networks = Networks(
        flat.size,
        read,
        write,
        None,
        lambda: _joining(flat, request.showers),
        lambda: _arrays(weights),
    )
    exchange = WorkerExchange(
        place, networks, rule, profile, every=parallel.sync_every, is_new=True
    )
    loop = _SleepingLoop(weights, request.folder / "ranks" / f"{place.leader:03d}" / "checkpoints")
    exchange.begin(0)
    reason: StopReason = "max_steps"
    own = -(-(limit - place.number) // place.layout.workers)
    began = time.perf_counter()
    try:
        while loop.step < own:
            loop.advance(request.sleep_seconds)
            exchange.after_block(loop)
    except StopTraining as stop:
        reason = stop.reason
    elapsed = time.perf_counter() - began
    exchange.before_last_save(loop)
    loop.save()
    exchange.leave(loop.step, reason)
    return {
        "steps": loop.step,
        "seconds": elapsed,
        "step": loop.train_seconds / loop.step,
        "exchange": (elapsed - loop.train_seconds) / max(1, loop.step // parallel.sync_every),
    }


def _joining(flat: FlatLayout, showers: int) -> dict[str, Any]:
    numerics = Numerics(
        processor=this_machine().processor,
        device="CPU",
        threads=1,
        replicas=1,
        workers=1,
        global_batch_size=_BATCH,
        precision="float32",
        math_library="none",
        tensorflow="none",
        keras="none",
    )
    started = Started(
        time=utc_now(),
        step=0,
        config_hash="",
        training_showers=showers,
        held_out_showers=0,
        hardware=this_machine(),
        numerics=numerics,
        versions={},
        git_commit=None,
        strategy="sleep",
        loop="custom",
        learning_rate=1.0,
        notes=(),
        startup_seconds=0.0,
    )
    summary = TrainingSummary(
        count=showers,
        sampled=0,
        energy_range_gev=(0, 1),
        theta_range_rad=None,
        mtheta_range_rad=(0, 1),
        layer_fraction=(),
        mean_image_sum_per_unit=1,
        contained_fraction=1,
        angle_fit=None,
    )
    return {
        "flat": flat.as_json(),
        "started": started.model_dump_json(),
        "summary": summary.model_dump_json(),
        "recalibrates": False,
    }


def _arrays(weights: Floats) -> Any:
    return np.frombuffer(as_archive({_NAME: weights}), np.uint8)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
