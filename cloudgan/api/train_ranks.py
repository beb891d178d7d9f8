"""Trains a run with several ranks: starts them on this machine, or acts as one of an MPI world."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from cloudgan.api.ranks import local_layout
from cloudgan.api.tensorflow_import import import_tensorflow
from cloudgan.core import settings
from cloudgan.core.document import Document
from cloudgan.core.documents import read_json, write_json
from cloudgan.core.errors import ConfigError
from cloudgan.core.held_port import SHARED, hold_port, number_of
from cloudgan.core.progress import Progress, Silent
from cloudgan.parallel.master import Above, Master
from cloudgan.parallel.parent import Parent
from cloudgan.parallel.rank import KEPT, Rank, rank_url
from cloudgan.parallel.run_keeper import RunKeeper
from cloudgan.parallel.trace import Profile, new_spans, write_trace
from cloudgan.parallel.worker import PREFIX, Worker
from cloudgan.ranks.launch import LocalRanks
from cloudgan.ranks.process import joined_world, rank_stop_flag
from cloudgan.ranks.world import World
from cloudgan.schema.config import RunConfig
from cloudgan.schema.record_line import StopReason
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.stop_criterion import BestCheckpoint
from cloudgan.training.checkpoint import Checkpoint, read_checkpoint
from cloudgan.training.cluster import prepare_environment, share_gpus
from cloudgan.training.stopping import EXIT_CODES, Outcome, raise_if_stopped


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
    store: Callable[[RunConfig], Path],
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
        store: Returns the store; called by the last rank, and under agents by all.
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
            found = world.gather(str(store(config)) if finds else None)
            profile = Profile(new_spans(world.size) if config.parallel.trace else None)
            rank = Rank.join(world, config, folder, profile)
            outcome = _play_role(rank, Path(found[world.rank] or found[-1]), progress, start_time)
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


def _of_world(config: RunConfig, world: World) -> RunConfig:
    """Returns the configuration with the size of the world.

    Raises:
        ConfigError: The world has another size than `--ranks`.
    """
    local_layout(config, world.size)
    parallel = config.parallel.model_copy(update={"ranks": world.size})
    return config.model_copy(update={"parallel": parallel})


@dataclass(frozen=True)
class _Inputs:
    """What a role needs beside its rank; `ranks_here` train on this machine."""

    store: Path
    progress: Progress
    start_time: float
    ranks_here: int


def _play_role(rank: Rank, store: Path, progress: Progress, start_time: float) -> Outcome | None:
    is_training = not rank.role.is_master
    here = _share_devices(rank.world, is_training=is_training)
    inputs = _Inputs(store, progress, start_time, here)
    outcome = None
    if is_training:
        _worker(rank, inputs)
    else:
        with rank_stop_flag() as flag:
            outcome = Master(rank, flag, _above(rank, inputs)).run()
    if rank.profile.spans:
        write_trace(rank.world, rank.layout, rank.folder.trace_file, rank.profile.spans)
    return outcome


def _above(rank: Rank, inputs: _Inputs) -> Above:
    """Returns what is above a master: the run, or rank 0."""
    if rank.role.parent is not None:
        return Parent(rank)
    validator = None
    if rank.config.training.validates_every:
        validator = partial(_measurer, rank.config, inputs.store)
    return RunKeeper(rank, inputs.progress, start_time=inputs.start_time, validator=validator)


def _share_devices(world: World, *, is_training: bool) -> int:
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


def _measurer(
    config: RunConfig, store: Path
) -> Callable[[Sequence[Any]], tuple[dict[str, float], int]]:
    """Returns the function that measures the quality of a generator on the held-out showers."""
    import_tensorflow()
    from cloudgan.data.batches import open_training_set
    from cloudgan.training.quality import HeldOutMetrics
    from cloudgan.validation.acceptance.assess import quick_metrics

    showers = open_training_set(store, config.model, config.data, progress=Silent())
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


def _worker(rank: Rank, inputs: _Inputs) -> None:
    """Trains one rank's part of the run."""
    layout, first = rank.layout, rank.first_step
    rank.own_folder.create()
    checkpoints = rank.checkpoints()
    url = rank_url(rank.config, rank.leader)
    config = worker_config(rank.config, rank.worker, layout.workers, url=url)
    saved: Checkpoint | None = None
    rule_state: dict[str, Any] = {}
    if rank.steps is not None:
        if rank.steps.has_ended:
            ended = config.training.model_copy(update={"max_steps": max(1, first)})
            config = config.model_copy(update={"training": ended})
        saved, rule_state = _saved_worker(checkpoints.fetch(first))
    if rank.is_leader:
        checkpoints.remove_later(-1 if rank.steps is None else first)
    options = prepare_environment(
        config, saved.state.numerics if saved else None, Silent(), processes=inputs.ranks_here
    )
    port = _join_group(rank.group)
    import_tensorflow()
    from cloudgan.parallel.gan_networks import GanNetworks
    from cloudgan.training.run import Among, train

    def join(*networks: Any) -> Worker:
        trained = saved.state.train_seconds if saved else 0.0
        return Worker(rank, GanNetworks(*networks), rule_state, trained_before=trained)

    with port, rank_stop_flag() as flag:
        train(
            *(config, rank.own_folder, inputs.store, options),
            flag=flag,
            progress=Silent(),
            start_time=inputs.start_time,
            among=Among(rank.worker, layout.workers, saved, join),
        )


def _saved_worker(path: Path) -> tuple[Checkpoint, dict[str, Any]]:
    """Reads a worker's checkpoint; returns it without the arrays of the update rule, and those."""
    found = read_checkpoint(path)
    rule = {n.removeprefix(PREFIX): a for n, a in found.arrays.items() if n.startswith(PREFIX)}
    arrays = {name: a for name, a in found.arrays.items() if not name.startswith(PREFIX)}
    return replace(found, arrays=arrays), rule


def _join_group(group: World) -> AbstractContextManager[object]:
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
