"""Trains a run on this machine: the use case of `cloudgan train`, and the public function `train`."""

from __future__ import annotations

import faulthandler
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from cloudgan.api.run import Run
from cloudgan.core import ranges, settings
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.hardware import this_machine
from cloudgan.core.loopback_network import LoopbackNetwork
from cloudgan.core.progress import Progress
from cloudgan.data.held_out import check_can_validate
from cloudgan.gan.footprint import check_stages
from cloudgan.ranks.placement import check_mpi, has_ranks, local_layout
from cloudgan.reports.notebook_progress import usual_progress
from cloudgan.schema import launch
from cloudgan.schema.config import RunConfig, differences
from cloudgan.schema.options.training import TrainOptions
from cloudgan.schema.run_folder import RunFolder
from cloudgan.storage.bucket_showers import is_url
from cloudgan.training.cluster import (
    Cluster,
    ComputeOptions,
    prepare_environment,
    read_cluster,
    run_workers,
)
from cloudgan.training.forecast import (
    ExpectedMemory,
    describe_work,
    expected_memory,
    training_share,
)
from cloudgan.training.run_options import resolve
from cloudgan.training.stopping import Outcome, StopFlag, raise_if_stopped
from cloudgan.training.tensorflow_import import import_tensorflow, require_engine, require_package


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
    train_run(config, folder, progress, quiet=True, allow_open_ports=options.allow_open_ports)
    if options.writes_report:
        from cloudgan.api.run_page import write_report  # imports all of the physics

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
    """Trains a run to its end, from `began_seconds` of `time.perf_counter()` on, by default now.

    Worker processes print their result, as JSON with `json`, and with `quiet` nothing: their logs are in the
    folder of the run. `allow_open_ports`: others may reach the ports of several workers.

    Returns:
        How the run ended; None where worker processes trained it.

    Raises:
        Interrupted: Ctrl-C, after a checkpoint was saved.
        TryAgain: SIGTERM, after a checkpoint was saved.
    """
    began = time.perf_counter() if began_seconds is None else began_seconds
    ranks = has_ranks(config)
    if ranks and settings.is_mpi_rank():
        return _train_as_rank(config, folder, progress, began)
    from cloudgan.training.showers import as_store, count_showers, find_showers

    supervised = settings.is_supervised() and not ranks
    cluster = None if ranks else read_cluster(settings.tf_config())
    starts_workers = not ranks and settings.tf_config() is None and config.training.workers > 1
    ranges.Range(1, ranges.MAX_LOCAL_PROCESSES).check("--workers", config.training.workers)
    _check_options(config, progress, has_workers=starts_workers or cluster is not None)
    if not (supervised or allow_open_ports):
        _check_ports(config, cluster, starts_workers=starts_workers)
    is_chief, is_alone = cluster is None or cluster.is_chief, cluster is None and not supervised
    if is_alone:
        folder.refuse_foreign()
    asked, (config, showers) = config, find_showers(config, folder, may_convert=cluster is None)
    folder.check(asked if supervised else config)  # run.yaml of a pod has no geometry
    workers = len(cluster.workers) if cluster else config.training.workers
    memory = expected_memory(
        config,
        workers=config.parallel.group if ranks else workers,
        processes=local_layout(config).size if ranks else (workers if starts_workers else 1),
    )
    warning = memory.check() if memory else None
    count = count_showers(showers)
    check_can_validate(config, count)
    require_engine(config.training.engine)
    require_package(config.training.tracker_package if is_chief else None)
    if not supervised:
        _check_copies(config)
    if is_chief:
        progress.say(describe_work(config, training_share(config, count)))
    with folder.locked() if cluster is None else nullcontext():
        if is_alone:
            _forget_start(config, folder)
        # Set before a conversion imports TensorFlow, which reads these variables once.
        options = ComputeOptions()
        if not (starts_workers or ranks):
            options = _prepared_options(config, folder, cluster, progress)
        store = as_store(showers, folder, progress)
        if is_chief and not supervised:
            folder.write_config(config)
            _note_attempt(config, folder)
        if is_chief and not starts_workers:
            _say_forecast(config, progress, memory, warning)
        if starts_workers:
            progress.end()  # the first worker shows the run
            command = ("train", f"--run={folder.path}", *(["--json"] if json else []))
            run_workers(command, workers, folder.logs, quiet=quiet, isolated=not allow_open_ports)
            return None
        if ranks:
            from cloudgan.parallel.train_ranks import start_ranks

            outcome = start_ranks(
                config, folder, progress, quiet=quiet, isolated=not allow_open_ports
            )
        else:
            outcome = _train_here(config, folder, store, progress, options, began=began)
    return outcome.model_copy(update={"memory": memory.forecast() if memory else None})


def _train_as_rank(
    config: RunConfig, folder: RunFolder, progress: Progress, began: float
) -> Outcome | None:
    """Acts as a rank of an MPI world; without a supervisor rank 0 prepares the folder."""
    from cloudgan.parallel.train_ranks import train_rank
    from cloudgan.training.showers import find_showers

    supervised = settings.is_supervised()
    if not supervised:
        _check_options(config, progress, has_workers=False)
        config, _ = find_showers(config, folder)

    @contextmanager
    def prepared(config: RunConfig) -> Iterator[None]:
        folder.refuse_foreign()
        folder.check(config)
        require_engine("tensorflow")
        require_package(config.training.tracker_package)
        _check_copies(config)
        with folder.locked():
            _forget_start(config, folder)
            folder.write_config(config)
            _note_attempt(config, folder)
            yield

    return train_rank(
        config,
        folder,
        progress,
        prepare=nullcontext if supervised else prepared,
        start_time=began,
    )


def _say_forecast(
    config: RunConfig, progress: Progress, memory: ExpectedMemory | None, warning: str | None
) -> None:
    """Shows the memory that the training will take, and that a stop criterion needs validations."""
    if memory:
        progress.say(warning or memory.describe())
    training = config.training
    if training.until and not training.validate_every:
        progress.say(f"--until={training.until} without --validate-every: each epoch is validated")


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
        if not settings.is_mpi_rank():  # whose world has its own number of ranks
            local_layout(config)
        check_mpi()
    if config.training.init_from:
        from cloudgan.training.checkpoint import find_warm_start

        find_warm_start(config, progress.say)


def _check_ports(config: RunConfig, cluster: Cluster | None, *, starts_workers: bool) -> None:
    """Refuses to let other users reach the servers of the engine, which ask for no credentials.

    Processes that this machine starts need no network then, and it must be able to isolate their ports.
    """
    workers, lacking = config.training.workers, ""
    if config.parallel.has_ranks:
        who, remedy = "the ranks", "give them"
        alone = "one process instead, without --parallel"
    elif starts_workers:
        alone = f"one process instead: --workers=1 --strategy=mirrored --replicas={workers}"
        who, remedy = f"the {workers} workers", f"run {alone}, or give them"
    elif cluster and len(cluster.workers) > 1:
        raise ConfigError(
            f"TF_CONFIG names {len(cluster.workers)} workers, whose servers listen on all"
            " addresses and execute what any host sends; run them with `cloudgan deploy`, or with"
            " --strategy=multiworker --workers=N on one machine. If only trusted hosts reach their"
            " ports, give --allow-open-ports"
        )
    else:
        return
    if is_url(config.checkpoint.url):
        lacking = f"copy checkpoints to {config.checkpoint.url}"
    elif config.training.tracker_package:
        lacking = f"reach the server of --track={config.training.track}"
    if lacking:
        raise ConfigError(
            f"{who} run without a network, so they cannot {lacking}; {remedy} the network and accept"
            " that others can reach their ports: --allow-open-ports"
        )
    LoopbackNetwork.check(alone)


def _check_copies(config: RunConfig) -> None:
    """Checks that the store of the checkpoints' copies is empty or holds this run."""
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
        from cloudgan.training.checkpoint import Checkpoints

        checkpoints = Checkpoints.of_run(config, folder)
        if checkpoints.all_steps() == [0]:
            checkpoints.remove_later(-1)


def _prepared_options(
    config: RunConfig, folder: RunFolder, cluster: Cluster | None, progress: Progress
) -> ComputeOptions:
    """Sets what the engine reads at import; a resumed run takes the options of its newest checkpoint."""
    # Imports NumPy, which a base installation lacks, and it must explain every command.
    from cloudgan.training.checkpoint import Checkpoints

    saved = Checkpoints.of_run(config, folder, cluster).resume_point(folder, progress.say)
    numerics = saved.state.numerics if saved else None
    processes = config.training.workers if settings.is_supervised() else 1
    options = prepare_environment(config, numerics, progress, processes=processes)
    if config.training.engine == "jax":
        settings.set_for_jax(options.threads)
    return options


def _note_attempt(config: RunConfig, folder: RunFolder) -> None:
    """Appends an attempt on this machine to launch.json."""
    path = folder.launch_file
    new = launch.Launch(run=config.name, config_hash=config.config_hash())
    known = launch.read(path) if path.exists() else new
    attempt = launch.local_attempt(this_machine().describe())
    launch.write(path, known.with_attempts((*known.attempts, attempt)))


def _train_here(
    config: RunConfig,
    folder: RunFolder,
    store: Path,
    progress: Progress,
    options: ComputeOptions,
    *,
    began: float,
) -> Outcome:
    supervised = settings.is_supervised()
    if supervised:
        faulthandler.register(signal.SIGUSR1, all_threads=True)
    uses_tensorflow = config.training.engine == "tensorflow"
    progress.start("loading TensorFlow" if uses_tensorflow else "loading JAX")
    if uses_tensorflow:
        import_tensorflow()
    from cloudgan.training.run import train as run_training

    with StopFlag() as flag:
        if supervised:
            flag.stop_with_parent(sys.stdin)
        outcome = run_training(
            config, folder, store, options, flag=flag, progress=progress, start_time=began
        )
    raise_if_stopped(
        outcome.reason, f"stopped after step {outcome.step}; rerun the command to resume"
    )
    return outcome
