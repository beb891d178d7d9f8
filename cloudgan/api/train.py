"""Trains a run on this machine: the use case of `cloudgan train`, and the public function `train`."""

from __future__ import annotations

import faulthandler
import signal
import sys
import time
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from cloudgan.api.engine_import import (
    import_engine,
    prepare_engine,
    require_engine,
    require_tracker,
)
from cloudgan.api.notebook_progress import usual_progress
from cloudgan.api.ranks import check_mpi, has_ranks, local_layout
from cloudgan.api.run import Run
from cloudgan.api.run_options import resolve
from cloudgan.api.training_showers import as_shards, count_showers, find_showers
from cloudgan.core import ranges, settings
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.hardware import this_machine
from cloudgan.core.loopback_network import LoopbackNetwork
from cloudgan.core.progress import Progress, Silent
from cloudgan.models.device_stages import check_stages
from cloudgan.schema import launch
from cloudgan.schema.config import differences
from cloudgan.schema.held_out import check_can_validate
from cloudgan.schema.options.training import TrainOptions
from cloudgan.training.cluster import read_cluster
from cloudgan.training.environment_checks import ComputeOptions, prepare_environment
from cloudgan.training.expected_memory import expected_memory
from cloudgan.training.forecast import describe_work, training_share
from cloudgan.training.workers import LocalWorkers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.core.progress import Progress
    from cloudgan.data.sources.source import ShowerSource
    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.record import Numerics
    from cloudgan.schema.run_folder import RunFolder
    from cloudgan.storage.bucket_shards import BucketShards
    from cloudgan.training.cluster import Cluster
    from cloudgan.training.outcome import Outcome


@command
def train(options: TrainOptions, *, progress: Progress | None = None) -> Run:
    """Trains a GAN on this machine, or resumes the run from its newest checkpoint.

    Args:
        options: What is trained, and how.
        progress: Receives each task and its progress.

    Returns:
        The run. Its folder holds run.yaml, record.jsonl and the checkpoints.

    Raises:
        ConfigError: An option is not valid, or the folder belongs to another run.
        DataError: The showers are missing or damaged.
        Interrupted: Ctrl-C, after a checkpoint was saved; the same call resumes.
        CloudganError: The training failed, for example because a loss is NaN or infinite.
    """
    keys, file = options.training
    config, folder = resolve(keys, config=file, run=options.run)
    progress = progress or usual_progress()
    train_run(
        config,
        folder,
        progress,
        quiet=True,
        allow_open_ports=options.allow_open_ports,
    )
    if options.writes_report:
        from cloudgan.api.run_report import write_report  # imports all of the physics

        write_report(folder, progress)
    return Run(folder.path)


def train_run(
    config: RunConfig,
    folder: RunFolder,
    progress: Progress,
    *,
    json: bool = False,
    quiet: bool = False,
    began_seconds: float | None = None,
    allow_open_ports: bool = False,
) -> Outcome | None:
    """Trains a run to its end.

    Args:
        config: The run's configuration.
        folder: Of the run.
        progress: Receives each task and its progress.
        json: Worker processes print their result as JSON.
        quiet: Worker processes print nothing; their logs are in the folder of the run.
        began_seconds: `time.perf_counter()` at the start of the program. Default: now.
        allow_open_ports: Whether others may reach the ports of several workers.

    Returns:
        How the run ended; None where worker processes trained it, which print their own result unless `quiet`.

    Raises:
        Interrupted: Ctrl-C, after a checkpoint was saved.
        TryAgain: SIGTERM, after a checkpoint was saved.
        CloudganError: The run failed.
    """
    began = time.perf_counter() if began_seconds is None else began_seconds
    if has_ranks(config):
        return _train_with_ranks(
            config,
            folder,
            progress,
            quiet=quiet,
            began_seconds=began,
            allow_open_ports=allow_open_ports,
        )
    cluster_text, supervised = settings.tf_config(), settings.is_supervised()
    starts_workers = cluster_text is None and config.training.workers > 1
    ranges.Range(1, ranges.MAX_LOCAL_PROCESSES).check("--workers", config.training.workers)
    _check_options(config, progress, has_workers=bool(cluster_text or starts_workers))
    cluster = read_cluster(cluster_text)
    if not (supervised or allow_open_ports):
        _check_ports(config, cluster, starts_workers=starts_workers)
    is_chief = cluster is None or cluster.is_chief
    if cluster is None and not supervised:
        folder.refuse_foreign()
    folder.check(config)
    workers = len(cluster.workers) if cluster else config.training.workers
    here = config.training.workers if starts_workers else 1
    memory = expected_memory(config, workers=workers, processes=here)
    warning = memory.check() if memory else None
    showers = find_showers(config, folder, may_convert=cluster is None)
    showers_to_train = _training_showers(config, showers)
    require_engine(config.training.engine)
    if is_chief:
        require_tracker(config)
    if not supervised:
        _check_copies(config)
    if is_chief:
        progress.say(describe_work(config, showers_to_train))
    with folder.locked() if cluster is None else nullcontext():
        # Set before the conversion imports TensorFlow, which reads these variables once.
        options = ComputeOptions()
        if cluster is None and not supervised:
            _forget_start(config, folder)
        if not starts_workers:
            saved = _saved_numerics(config, folder, cluster, progress)
            options = prepare_environment(config, saved, progress)
            prepare_engine(config, options, supervised=supervised)
        shards = as_shards(showers, folder, progress)
        if is_chief and not supervised:
            folder.write_config(config)
            _note_attempt(config, folder)
        if starts_workers:
            progress.end()  # the first worker shows the run
            command = ("train", f"--run={folder.path}", *(["--json"] if json else []))
            isolated, workers = not allow_open_ports, config.training.workers
            LocalWorkers(command, workers, folder.logs, quiet=quiet, isolated=isolated).run()
            return None
        if is_chief:
            about = warning or memory.describe() if memory else None
            _say(progress, about, _validation_note(config))
        outcome = _train_here(config, folder, shards, progress, options, began_seconds=began)
    return replace(outcome, memory=memory.as_json() if memory else None)


def _training_showers(config: RunConfig, showers: Path | ShowerSource | BucketShards) -> int:
    """Returns how many showers a run trains on.

    Raises:
        ConfigError: Too few are held out for its validations.
    """
    count = count_showers(showers)
    check_can_validate(config, count)
    return training_share(config, count)


def _train_with_ranks(
    config: RunConfig,
    folder: RunFolder,
    progress: Progress,
    *,
    quiet: bool,
    began_seconds: float,
    allow_open_ports: bool,
) -> Outcome | None:
    """Acts as a rank of an MPI world, or starts one on this machine."""
    from cloudgan.api.train_ranks import start_ranks, train_rank

    def shards(config: RunConfig) -> Path:
        return as_shards(find_showers(config, folder, may_convert=True), folder, Silent())

    @contextmanager
    def prepared(config: RunConfig) -> Iterator[None]:
        _check_options(config, progress, has_workers=False)
        folder.refuse_foreign()
        folder.check(config)
        require_engine("tensorflow")
        require_tracker(config)
        _check_copies(config)
        with folder.locked():
            _forget_start(config, folder)
            folder.write_config(config)
            _note_attempt(config, folder)
            yield

    if settings.is_mpi_rank():
        supervised = settings.is_supervised()
        return train_rank(
            config,
            folder,
            progress,
            shards=shards,
            prepare=nullcontext if supervised else prepared,
            start_time=began_seconds,
        )
    check_mpi()
    ranks = local_layout(config).size
    if not allow_open_ports:
        _check_rank_ports(config)
    memory = expected_memory(config, workers=config.parallel.group, processes=ranks)
    warning = memory.check() if memory else None
    showers = find_showers(config, folder, may_convert=True)
    showers_to_train = _training_showers(config, showers)
    with prepared(config):
        progress.say(describe_work(config, showers_to_train))
        _say(progress, warning or memory.describe() if memory else None, _validation_note(config))
        as_shards(showers, folder, progress)
        outcome = start_ranks(config, folder, progress, quiet=quiet, isolated=not allow_open_ports)
    return replace(outcome, memory=memory.as_json() if memory else None)


def _check_rank_ports(config: RunConfig) -> None:
    """Checks that no other user will reach the ports of the ranks of this machine.

    Raises:
        ConfigError: Others could, or the isolated ranks could not reach their bucket or tracker.
    """
    if lacking := _needs_network(config):
        raise ConfigError(
            f"the ranks run without a network, so they cannot {lacking}; give them the network and"
            " accept that others can reach their ports: --allow-open-ports"
        )
    LoopbackNetwork.check("one process instead, without --parallel")


def _check_options(config: RunConfig, progress: Progress, *, has_workers: bool) -> None:
    if config.task == "simulate":
        raise ConfigError(
            "the run.yaml has the task simulate: `cloudgan deploy -- simulate` carries it out, and"
            " `cloudgan train --data=FOLDER` trains on its showers"
        )
    if config.task == "join":
        raise ConfigError(
            f"the run.yaml has the task join: `cloudgan deploy -- join {config.join}` carries it out"
        )
    if config.grid:
        raise ConfigError(
            "the run.yaml has a grid of cells: `cloudgan deploy` carries it out, and `cloudgan evolve`"
            " trains a grid on this machine"
        )
    if not config.data.path:
        raise ConfigError(
            "--data is missing; give your showers, such as `cloudgan train showers.h5`, a file or a folder"
            " from `cloudgan convert`; or run `cloudgan demo`, which simulates them"
        )
    if config.training.strategy == "multiworker" and not has_workers:
        raise ConfigError(
            "--strategy=multiworker needs --workers=N, which starts N processes on this machine, or"
            " TF_CONFIG, which names the processes to join"
        )
    check_stages(config.parallel.stages, config.model)
    if config.parallel.has_ranks:
        local_layout(config)
        check_mpi()
    if config.training.init_from:
        from cloudgan.training.warm_start import find_warm_start

        find_warm_start(config, progress.say)


def _check_ports(config: RunConfig, cluster: Cluster | None, *, starts_workers: bool) -> None:
    """Checks that no other user will reach the servers of the engine, which ask for no credentials.

    Raises:
        ConfigError: Others could, or the isolated workers could not reach their bucket or tracker.
    """
    if starts_workers:
        workers = config.training.workers
        one_process = f"one process instead: --workers=1 --strategy=mirrored --replicas={workers}"
        if lacking := _needs_network(config):
            raise ConfigError(
                f"the {workers} workers run without a network, so they cannot {lacking};"
                f" run {one_process}, or give them the network and accept that others"
                " can reach their ports: --allow-open-ports"
            )
        LoopbackNetwork.check(one_process)
    elif cluster and len(cluster.workers) > 1:
        raise ConfigError(
            f"TF_CONFIG names {len(cluster.workers)} workers, whose servers listen on all"
            " addresses and execute what any host sends; run them with `cloudgan deploy`, or with"
            " --strategy=multiworker --workers=N on one machine. If only trusted hosts reach their"
            " ports, give --allow-open-ports"
        )


def _needs_network(config: RunConfig) -> str:
    """Returns what the processes of a run cannot do in a network of their own; empty: nothing is lacking."""
    from cloudgan.storage.bucket_shards import is_url

    if is_url(config.checkpoint.url):
        return f"copy checkpoints to {config.checkpoint.url}"
    return f"reach the server of --track={config.training.track}" * bool(
        config.training.tracker_package
    )


def _validation_note(config: RunConfig) -> str | None:
    training = config.training
    if training.validate_every or not training.until:
        return None
    return f"--until={training.until} without --validate-every: each epoch is validated"


def _say(progress: Progress, *lines: str | None) -> None:
    for line in lines:
        if line:
            progress.say(line)


def _check_copies(config: RunConfig) -> None:
    """Checks that the store of the checkpoints' copies is empty or holds this run.

    Raises:
        ConfigError: It holds another run, whose checkpoints this one would replace.
    """
    if not config.checkpoint.url:
        return
    from cloudgan.training.checkpoint import Checkpoints

    with TemporaryDirectory() as empty, suppress(DataError):  # damaged ones are of no run
        found, _ = Checkpoints(Path(empty), url=config.checkpoint.url).newest()
        there = found.state.config.mathematics() if found and found.state.step else {}
        if there and there != config.mathematics():
            differing = "; ".join(differences(config.mathematics(), there))
            raise ConfigError(
                f"{config.checkpoint.url} holds the checkpoints of another run; requested and existing"
                f" configuration differ in {differing}. Give another --checkpoints, or omit these flags to"
                " resume it"
            )


def _forget_start(config: RunConfig, folder: RunFolder) -> None:
    """Removes the checkpoint of step 0 of a run that failed before it trained, if this is another run."""
    folder.check(config)  # again: another process may have trained until this one had the lock
    there = folder.read_config()
    if there and there.mathematics() != config.mathematics():
        from cloudgan.training.checkpoint import run_checkpoints

        checkpoints = run_checkpoints(config, folder, None)
        if checkpoints.all_steps() == [0]:
            checkpoints.remove_later(-1)


def _saved_numerics(
    config: RunConfig, folder: RunFolder, cluster: Cluster | None, progress: Progress
) -> Numerics | None:
    """Numerics of the newest checkpoint, which a resumed run reuses; None for a new run."""
    # Imports NumPy, which a base installation lacks, and it must explain every command.
    from cloudgan.training.checkpoint import resume_point, run_checkpoints

    saved = resume_point(run_checkpoints(config, folder, cluster), folder, progress.say)
    return saved.state.numerics if saved else None


def _note_attempt(config: RunConfig, folder: RunFolder) -> None:
    """Appends an attempt on this machine to launch.json."""
    path = folder.launch_file
    new = launch.Launch(run=config.name, config_hash=config.config_hash())
    known = launch.read(path) if path.exists() else new
    launch.write(path, known.with_attempt(launch.local_attempt(this_machine().describe())))


def _train_here(
    config: RunConfig,
    folder: RunFolder,
    shards: Path,
    progress: Progress,
    options: ComputeOptions,
    *,
    began_seconds: float,
) -> Outcome:
    supervised = settings.is_supervised()
    if supervised:
        faulthandler.register(signal.SIGUSR1, all_threads=True)
    start_engine = import_engine(config.training.engine, progress)
    from cloudgan.training.context import make_context
    from cloudgan.training.run import train as run_training
    from cloudgan.training.stopping import StopFlag, raise_if_stopped

    cluster = read_cluster(settings.tf_config())
    with StopFlag() as flag, start_engine.translate_lost_workers(cluster):
        if supervised:
            flag.stop_with_parent(sys.stdin)
        context = make_context(
            config,
            folder,
            shards,
            cluster=cluster,
            workers_here=config.training.workers if supervised else 1,
            options=options,
            progress=progress,
            start_engine=start_engine,
        )
        flag.install_handlers()
        outcome = run_training(context, flag, progress, start_time=began_seconds)
    raise_if_stopped(
        outcome.reason, f"stopped after step {outcome.step}; rerun the command to resume"
    )
    return outcome
