"""Trains a run with several ranks: starts them on this machine, or acts as one of an MPI world."""

from __future__ import annotations

import json
import socket
import sys
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloudgan.api.ranks import local_layout
from cloudgan.api.tensorflow_import import import_tensorflow
from cloudgan.core import settings
from cloudgan.core.document import Document
from cloudgan.core.documents import read_json, write_json
from cloudgan.core.errors import ConfigError
from cloudgan.core.held_port import SHARED, hold_port, number_of
from cloudgan.core.progress import Silent
from cloudgan.parallel.centre import KEPT
from cloudgan.parallel.layout import make_layout
from cloudgan.parallel.local_ranks import LocalRanks
from cloudgan.parallel.profile import Profile
from cloudgan.parallel.rank_process import joined_world, rank_stop_flag
from cloudgan.parallel.trace import new_spans, write_trace
from cloudgan.schema.record_line import StopReason
from cloudgan.training.checkpoint import BestCheckpoint
from cloudgan.training.cluster import read_cluster, share_gpus
from cloudgan.training.environment_checks import prepare_environment
from cloudgan.training.outcome import Outcome
from cloudgan.training.stopping import EXIT_CODES, raise_if_stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from cloudgan.core.progress import Progress
    from cloudgan.parallel.centre import ResumedSteps
    from cloudgan.parallel.communicator import Communicator
    from cloudgan.parallel.layout import Layout, Role
    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.run_folder import RunFolder
    from cloudgan.training.checkpoint import Checkpoint


def start_ranks(
    config: RunConfig,
    folder: RunFolder,
    progress: Progress,
    *,
    quiet: bool,
    isolated: bool,
) -> Outcome:
    """Runs the ranks of a run on this machine until they end.

    Raises:
        CloudganError: They failed, or were stopped.
    """
    command = ("train", f"--run={folder.path}")
    LocalRanks(
        command,
        config.parallel.ranks or 0,
        folder,
        progress,
        newest=lambda: max(folder.saved_steps(), default=-1),
        quiet=quiet,
        isolated=isolated,
    ).run()
    return read_json(_end_file(folder), _RunEnd).outcome()


class _RunEnd(Document):
    """How the run ended; rank 0 writes it, because Hydra prints into the standard output of the ranks."""

    reason: StopReason
    step: int
    epoch: int
    train_seconds: float
    checkpoint: Path
    best: BestCheckpoint | None

    @classmethod
    def of(cls, outcome: Outcome) -> _RunEnd:
        """Returns what is left of an outcome."""
        return cls(**{name: getattr(outcome, name) for name in cls.model_fields})

    def outcome(self) -> Outcome:
        """Returns it as the outcome of a training."""
        return Outcome(
            self.reason,
            self.step,
            self.epoch,
            self.train_seconds,
            self.checkpoint,
            best=self.best,
        )


def _end_file(folder: RunFolder) -> Path:
    return folder.path / "ranks" / "end.json"


def train_rank(
    config: RunConfig,
    folder: RunFolder,
    progress: Progress,
    *,
    shards: Callable[[RunConfig], Path],
    prepare: Callable[[RunConfig], Any],
    start_time: float,
) -> Outcome | None:
    """Trains as one rank of an MPI world, until all ranks have ended.

    A failure ends this process at once, with the exit code of the error: the process manager then ends
    the other ranks.

    Args:
        config: Of the run.
        folder: Of the run.
        progress: Shown by rank 0.
        shards: Returns the folder of shards; called by the last rank, and under agents by all.
        prepare: Checks and writes the run's folder; a context manager, entered by rank 0.
        start_time: `time.perf_counter()` at the start of the program.

    Returns:
        How the run ended; None except on rank 0. Under a supervisor rank 0 leaves it in a file, and ends;
        under the agents of nodes all ranks end with the same exit code.

    Raises:
        Interrupted: Ctrl-C; all ranks have saved.
        TryAgain: SIGTERM; all ranks have saved.
    """
    outcome: Outcome | None
    with joined_world(folder) as world:
        config = _of_world(config, world)
        with prepare(config) if world.rank == 0 else nullcontext():
            is_last = world.rank == world.size - 1
            finds = is_last or settings.has_agent()  # then each node has its own folder
            found = world.gather(str(shards(config)) if finds else None)
            outcome = _play_role(
                world,
                config,
                folder,
                Path(found[world.rank] or found[-1]),
                progress=progress,
                start_time=start_time,
            )
        if settings.has_agent():
            reason = world.gather(outcome.reason if outcome else None)[0]
    if settings.has_agent():
        sys.exit(EXIT_CODES.get(reason, 0))
    if outcome and settings.is_supervised():
        write_json(_end_file(folder), _RunEnd.of(outcome))
        sys.exit(EXIT_CODES.get(outcome.reason, 0))
    if outcome:
        raise_if_stopped(
            outcome.reason, f"stopped after step {outcome.step}; rerun the command to resume"
        )
    return outcome


def _of_world(config: RunConfig, world: Communicator) -> RunConfig:
    """Returns the configuration with the size of the world.

    Raises:
        ConfigError: The world has another size than `--ranks`.
    """
    local_layout(config, world.size)
    parallel = config.parallel.model_copy(update={"ranks": world.size})
    return config.model_copy(update={"parallel": parallel})


@dataclass(frozen=True)
class _Rank:
    """What each role needs; `ranks_here` train on this machine."""

    world: Communicator
    layout: Layout
    config: RunConfig
    folder: RunFolder
    shards: Path
    start_time: float
    ranks_here: int
    profile: Profile

    @property
    def role(self) -> Role:
        """Role of this rank."""
        return self.layout.roles[self.world.rank]


def _play_role(
    world: Communicator,
    config: RunConfig,
    folder: RunFolder,
    shards: Path,
    *,
    progress: Progress,
    start_time: float,
) -> Outcome | None:
    layout = make_layout(world.size, config.parallel)
    role = layout.roles[world.rank]
    group = world.split(layout.master_ranks + (role.worker or 0) if not role.is_master else 0)
    resumed, steps, has_ended = _agree_on_point(world, config, folder, layout)
    here = _share_devices(world, is_training=not role.is_master)
    spans = new_spans(world.size) if config.parallel.trace else None
    rank = _Rank(world, layout, config, folder, shards, start_time, here, Profile(spans))
    outcome = None
    if not role.is_master:
        _worker(rank, group, steps.workers if steps else None, has_ended=has_ended)
    elif role.parent is not None:
        _lower_master(rank, steps)
    else:
        outcome = _master(rank, progress, resumed)
    if spans:
        write_trace(world, layout, folder.trace_file, spans)
    return outcome


def _agree_on_point(
    world: Communicator, config: RunConfig, folder: RunFolder, layout: Layout
) -> tuple[Any, ResumedSteps | None, bool]:
    """Returns where all ranks resume.

    Returns:
        The point (on rank 0), the steps of the others there, and whether its validations end the run.
    """
    from cloudgan.parallel.centre import ResumedSteps, find_point, rank_checkpoints
    from cloudgan.training.quality_history import QualityHistory

    found = world.gather(rank_checkpoints(config, folder, world.rank).all_steps())
    workers = [found[layout.group_of(worker)[0]] for worker in range(layout.workers)]
    masters = [found[rank] for rank in layout.masters if rank]
    point = find_point(config, folder, workers, masters) if world.rank == 0 else None
    state = point[0].state if point else None
    steps = [state.worker_steps, state.master_steps] if state else None
    stop = QualityHistory(config.training, state).stop
    steps, has_ended = world.gather([steps, stop is not None])[0]
    return point, ResumedSteps(*steps) if steps else None, has_ended


def _share_devices(world: Communicator, *, is_training: bool) -> int:
    """Gives each training rank of a machine its own accelerators, and masters none.

    Returns:
        Training ranks on this machine.

    Raises:
        ConfigError: The ranks of a machine do not divide its GPUs.
    """
    found = world.gather([socket.gethostname(), is_training])
    here = [
        rank for rank, (host, trains) in enumerate(found) if trains and host == found[world.rank][0]
    ]
    if is_training:
        settings.set_for_tensorflow(share_gpus(len(here))[here.index(world.rank)])
    else:
        settings.set_for_tensorflow({"CUDA_VISIBLE_DEVICES": "-1"})
    return len(here)


def _master(rank: _Rank, progress: Progress, resumed: Any) -> Outcome:
    from cloudgan.parallel.master import Master
    from cloudgan.parallel.validator import Validator

    training = rank.config.training
    validator = None
    if training.validates_every:
        prepare = partial(_measurer, rank.config, rank.shards)
        validator = Validator(prepare, start_time=rank.start_time)
    with rank_stop_flag() as flag:
        master = Master(
            rank.world,
            rank.layout,
            rank.config,
            rank.folder,
            flag=flag,
            profile=rank.profile,
            progress=progress,
            start_time=rank.start_time,
            resumed=resumed,
            validator=validator,
        )
        return master.run()


def _lower_master(rank: _Rank, steps: ResumedSteps | None) -> None:
    from cloudgan.parallel.lower_master import LowerMaster

    with rank_stop_flag() as flag:
        LowerMaster(
            rank.world,
            rank.layout,
            rank.config,
            rank.folder,
            flag=flag,
            profile=rank.profile,
            resumed=steps,
        ).run()


def _measurer(
    config: RunConfig, shards: Path
) -> Callable[[Sequence[Any]], tuple[dict[str, float], int]]:
    """Returns the function that measures the quality of a generator on the held-out showers."""
    import_tensorflow()
    from cloudgan.data.pipeline.training_set import open_training_set
    from cloudgan.training.quality_evaluator import HeldOutMetrics
    from cloudgan.validation.acceptance.assess import quick_metrics

    showers = open_training_set(shards, config.model, config.data, progress=Silent())
    held_out = HeldOutMetrics(
        config.model, showers, seed=config.training.seed, measure=quick_metrics
    )

    def measure(weights: Sequence[Any]) -> tuple[dict[str, float], int]:
        found = held_out.compute(weights, Silent(), cancelled=lambda: False)
        return dict(found or {}), len(held_out)

    return measure


def worker_config(config: RunConfig, worker: int, workers: int, *, url: str = "") -> RunConfig:
    """Returns the configuration of one worker's part of a run.

    It trains its share of the steps; the master validates, saves the run and decides when workers save.

    Args:
        config: Of the run.
        worker: Its number.
        workers: Number of all.
        url: Of the copies of its checkpoints; empty: none.

    Raises:
        ConfigError: There are fewer steps than workers.
    """
    training, checkpoint = config.training, config.checkpoint
    limit = training.max_steps
    if limit is not None and limit < workers:
        raise ConfigError(
            f"--max-steps={limit} are fewer than the {workers} workers, which train one step at least;"
            f" give --max-steps={workers} or more"
        )
    own = None if limit is None else -(-(limit - worker) // workers)
    # Of a run with limits the workers' epochs end later than the run.
    update = {"max_steps": own, "validate_every": 0, "until": "", "validation_showers": 0}
    update |= {"track": "none", "max_seconds": None, "patience": None, "smooth": None}
    saving = {"keep": KEPT, "every_steps": None, "every_seconds": 1e9, "url": url}
    return config.model_copy(
        update={
            "training": training.model_copy(update=update),
            "checkpoint": checkpoint.model_copy(update=saving),
        }
    )


def _worker(
    rank: _Rank, group: Communicator, steps: Sequence[int] | None, *, has_ended: bool
) -> None:
    """Trains one rank's part of the run, after the own step in `steps` if it resumes."""
    from cloudgan.parallel.centre import rank_checkpoints, rank_folder, rank_url
    from cloudgan.parallel.place import Place

    layout = rank.layout
    place = Place(rank.world, group, layout, rank.role)
    own = rank_folder(rank.folder, place.leader)
    own.create()
    checkpoints = rank_checkpoints(rank.config, rank.folder, place.leader)
    url = rank_url(rank.config, place.leader)
    config = worker_config(rank.config, place.number, layout.workers, url=url)
    if steps is not None and has_ended:
        ended = {"max_steps": max(1, steps[place.number])}
        config = config.model_copy(update={"training": config.training.model_copy(update=ended)})
    saved: Checkpoint | None = None
    rule_state: dict[str, Any] = {}
    if steps is not None:
        saved, rule_state = _saved_worker(checkpoints.fetch(steps[place.number]))
    if place.is_leader:
        checkpoints.remove_later(steps[place.number] if steps else -1)
    options = prepare_environment(config, saved.state.numerics if saved else None, Silent())
    port = _join_group(group)
    import_tensorflow()
    from cloudgan.parallel.gan_exchange import gan_exchange
    from cloudgan.training.context import WorkerAmong, make_context
    from cloudgan.training.engines.tensorflow_engine import TensorFlowEngine
    from cloudgan.training.run import train
    from cloudgan.training.strategy import translate_lost_workers

    cluster = read_cluster(settings.tf_config())
    with port, rank_stop_flag() as flag, translate_lost_workers(cluster):
        context = make_context(
            config,
            own,
            rank.shards,
            cluster=cluster,
            workers_here=rank.ranks_here,
            options=options,
            progress=Silent(),
            start_engine=TensorFlowEngine,
            among=WorkerAmong(place.number, layout.workers, saved),
        )
        flag.install_handlers()
        join = partial(gan_exchange, place, rule_state=rule_state, profile=rank.profile)
        train(context, flag, Silent(), start_time=rank.start_time, join=join)


def _saved_worker(path: Path) -> tuple[Checkpoint, dict[str, Any]]:
    """Reads a worker's checkpoint; returns it without the arrays of the update rule, and those."""
    from cloudgan.parallel.place import PREFIX
    from cloudgan.training.checkpoint import read_checkpoint

    found = read_checkpoint(path)
    rule = {n.removeprefix(PREFIX): a for n, a in found.arrays.items() if n.startswith(PREFIX)}
    arrays = {name: a for name, a in found.arrays.items() if not name.startswith(PREFIX)}
    return replace(found, arrays=arrays), rule


def _join_group(group: Communicator) -> AbstractContextManager[object]:
    """Sets TF_CONFIG of a group of several ranks, from the addresses of its ranks; returns the held port.

    Under agents these are the addresses at which the agents reach each other: the name of a node may
    resolve to its loopback.
    """
    if group.size == 1:
        settings.set_for_tensorflow({"TF_CONFIG": ""})
        return nullcontext()
    held = hold_port()
    own = settings.agent_host()
    hosts = group.gather(own or socket.gethostname())
    host = "127.0.0.1" if len(set(hosts)) == 1 else own or socket.getfqdn()
    peers = group.gather(f"{host}:{number_of(held)}")
    task = {"cluster": {"worker": peers}, "task": {"type": "worker", "index": group.rank}}
    settings.set_for_tensorflow({"TF_CONFIG": json.dumps(task), **SHARED})
    return held
