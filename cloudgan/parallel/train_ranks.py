"""Trains a run with several ranks: starts them on this machine, or acts as one of an MPI world."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from cloudgan.core import settings
from cloudgan.core.children import SHARED, hold_port, number_of
from cloudgan.core.documents import read_json, write_json
from cloudgan.core.errors import ConfigError
from cloudgan.core.progress import Progress, Silent
from cloudgan.parallel.master import Above, Master
from cloudgan.parallel.rank import KEPT, Rank, rank_url
from cloudgan.parallel.run_keeper import RunKeeper
from cloudgan.parallel.trace import Profile, most_spans, write_trace
from cloudgan.parallel.worker import PREFIX, Parent, Worker
from cloudgan.ranks.mpi import World
from cloudgan.ranks.placement import local_layout
from cloudgan.ranks.process import LocalRanks, RunEnd, rank_stop_flag, run_as_rank
from cloudgan.schema.config import RunConfig
from cloudgan.schema.run_folder import RunFolder
from cloudgan.training.checkpoint import Checkpoint
from cloudgan.training.cluster import prepare_environment, share_gpus
from cloudgan.training.showers import as_store, find_showers
from cloudgan.training.stopping import Outcome
from cloudgan.training.tensorflow_import import import_tensorflow


def start_ranks(
    config: RunConfig,
    folder: RunFolder,
    progress: Progress,
    *,
    quiet: bool,
    isolated: bool,
) -> Outcome:
    """Runs the ranks of a run on this machine until they end."""
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
    return read_json(_end_file(folder), Outcome)


def _end_file(folder: RunFolder) -> Path:
    """How the run ended; rank 0 writes it, because Hydra prints into the standard output of the ranks."""
    return folder.path / "ranks" / "end.json"


def train_rank(
    config: RunConfig,
    folder: RunFolder,
    progress: Progress,
    *,
    prepare: Callable[[RunConfig], Any],
    start_time: float,
) -> Outcome | None:
    """Trains as one rank of an MPI world, until all ranks have ended.

    `prepare` checks and writes the run's folder: a context manager, entered by rank 0.

    Returns:
        How the run ended; None except on rank 0, which leaves it in a file for a supervisor on this machine.
    """
    outcome: Outcome | None = None

    def play(world: World) -> RunEnd | None:
        nonlocal outcome
        local_layout(config, world.size)
        parallel = config.parallel.model_copy(update={"ranks": world.size})
        of_world = config.model_copy(update={"parallel": parallel})
        with prepare(of_world) if world.rank == 0 else nullcontext():
            store = None
            # Under agents each node has its own folder.
            if world.rank == world.size - 1 or settings.has_agent():
                _, showers = find_showers(of_world, folder)
                store = str(as_store(showers, folder, Silent()))
            found = world.gather(store)
            profile = Profile(most_spans(world.size) if parallel.trace else 0)
            rank = Rank.join(world, of_world, folder, profile)
            outcome = _play_role(rank, Path(found[world.rank] or found[-1]), progress, start_time)
        if outcome and settings.is_supervised() and not settings.has_agent():
            write_json(_end_file(folder), outcome)
        return RunEnd(outcome.reason, outcome.step) if outcome else None

    run_as_rank(folder, play, unit="step")
    return outcome


def _play_role(rank: Rank, store: Path, progress: Progress, start_time: float) -> Outcome | None:
    is_training = not rank.role.is_master
    here = _share_devices(rank.world, is_training=is_training)
    outcome = None
    if is_training:
        _worker(rank, store, here, start_time)
    else:
        above: Above
        if rank.role.parent is None:
            validates = rank.config.training.validates_every
            validator = partial(_measurer, rank.config, store) if validates else None
            above = RunKeeper(rank, progress, start_time=start_time, validator=validator)
        else:
            above = Parent(rank)
        with rank_stop_flag() as flag:
            outcome = Master(rank, flag, above).run()
    if rank.profile.has_spans:
        write_trace(rank.world, rank.layout, rank.folder.trace_file, rank.profile)
    return outcome


def _share_devices(world: World, *, is_training: bool) -> int:
    """Gives each training rank of a machine its own accelerators, and masters none."""
    found = world.gather([socket.gethostname(), is_training])
    here = [
        rank for rank, (host, trains) in enumerate(found) if trains and host == found[world.rank][0]
    ]
    if is_training:
        settings.set_variables(share_gpus(len(here))[here.index(world.rank)])
    else:
        settings.set_variables({"CUDA_VISIBLE_DEVICES": "-1"})
    return len(here)


def _measurer(
    config: RunConfig, store: Path
) -> Callable[[Sequence[Any]], tuple[dict[str, float], int]]:
    """Returns the function that measures the quality of a generator on the held-out showers."""
    import_tensorflow()
    from cloudgan.data.batches import TrainingSet
    from cloudgan.training.quality import HeldOutMetrics
    from cloudgan.validation.assess import quick_metrics

    showers = TrainingSet.open(store, config.model, config.data, progress=Silent())
    held_out = HeldOutMetrics(
        config.model, showers, seed=config.training.seed, measure=quick_metrics
    )

    def measure(weights: Sequence[Any]) -> tuple[dict[str, float], int]:
        found = held_out.compute(weights, Silent(), cancelled=lambda: False)
        return dict(found or {}), len(held_out)

    return measure


def worker_config(config: RunConfig, worker: int, workers: int, *, url: str = "") -> RunConfig:
    """Returns the configuration of one worker's part of a run, with copies of its checkpoints at `url`, if any.

    It trains its share of the steps; the master validates, saves the run and decides when workers save.
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


def _worker(rank: Rank, store: Path, ranks_here: int, start_time: float) -> None:
    """Trains one rank's part of the run; `ranks_here` train on this machine."""
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
        saved = rank.read_part()
        arrays = dict(saved.arrays)
        rule = [name for name in arrays if name.startswith(PREFIX)]
        rule_state = {name.removeprefix(PREFIX): arrays.pop(name) for name in rule}
        saved = replace(saved, arrays=arrays)
    if rank.is_leader:
        checkpoints.remove_later(-1 if rank.steps is None else first)
    options = prepare_environment(
        config, saved.state.numerics if saved else None, Silent(), processes=ranks_here
    )
    port = _join_group(rank.group)
    import_tensorflow()
    from cloudgan.parallel.gan_networks import GanNetworks
    from cloudgan.training.run import Among, train

    def join(*training: Any) -> Worker:
        trained = saved.state.train_seconds if saved else 0.0
        return Worker(rank, GanNetworks(*training), rule_state, trained_before=trained)

    with port, rank_stop_flag() as flag:
        train(
            *(config, rank.own_folder, store, options),
            flag=flag,
            progress=Silent(),
            start_time=start_time,
            among=Among(rank.worker, layout.workers, saved, join),
        )


def _join_group(group: World) -> AbstractContextManager[object]:
    """Sets TF_CONFIG of a group of several ranks, from the addresses of its ranks; returns the held port.

    Under agents these are the addresses at which the agents reach each other: the name of a node may
    resolve to its loopback.
    """
    if group.size == 1:
        settings.set_variables({"TF_CONFIG": ""})
        return nullcontext()
    held = hold_port()
    own = settings.agent_host()
    hosts = group.gather(own or socket.gethostname())
    host = "127.0.0.1" if len(set(hosts)) == 1 else own or socket.getfqdn()
    peers = group.gather(f"{host}:{number_of(held)}")
    task = {"cluster": {"worker": peers}, "task": {"type": "worker", "index": group.rank}}
    settings.set_variables({"TF_CONFIG": json.dumps(task), **SHARED})
    return held
