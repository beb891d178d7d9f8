"""Trains a run on this machine: the use case of `cloudgan train`, and the public function `train`."""

from __future__ import annotations

import faulthandler
import signal
import sys
import time
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloudgan.api.run import Run
from cloudgan.api.run_options import config_keys, resolve
from cloudgan.api.tensorflow_import import import_tensorflow
from cloudgan.core import settings
from cloudgan.core.errors import ConfigError, Interrupted, TryAgain
from cloudgan.core.hardware import this_machine
from cloudgan.core.loopback_network import LoopbackNetwork
from cloudgan.core.progress import Silent
from cloudgan.schema import launch, record
from cloudgan.schema.held_out import check_can_validate
from cloudgan.storage.store import StoreError
from cloudgan.training.cluster import read_cluster
from cloudgan.training.environment_checks import ComputeOptions, prepare_environment
from cloudgan.training.expected_memory import expected_memory
from cloudgan.training.workers import LocalWorkers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Unpack

    from cloudgan.api.run_options import LocalOptions
    from cloudgan.core.progress import Progress
    from cloudgan.data.sources.source import ShowerSource
    from cloudgan.schema.config import RunConfig, TrainingConfig
    from cloudgan.schema.record import Numerics
    from cloudgan.schema.run_folder import RunFolder
    from cloudgan.storage.bucket_shards import BucketShards
    from cloudgan.training.cluster import Cluster
    from cloudgan.training.run import Outcome


def train(
    *,
    run: str | Path | None = None,
    config: str | Path | None = None,
    progress: Progress | None = None,
    allow_open_ports: bool = False,
    **options: Unpack[LocalOptions],
) -> Run:
    """Trains a GAN on this machine, or resumes the run from its newest checkpoint.

    Args:
        run: Folder of the run. Default: runs/NAME of the run.yaml, else runs/PRESET.
        config: A run.yaml; options override its keys.
        progress: Receives each task and its progress.
        allow_open_ports: Start or join several worker processes even where others can reach their
            ports; TensorFlow's servers execute what they receive.
        **options: ``data`` (HDF5 or TFRecord files, a folder of shards, or a bucket), ``preset``
            (paper, mini, fixed25 or smoke), ``epochs``, ``batch``, ``max_steps``, ... with the names
            and defaults of the flags of `cloudgan train --help`.

    Returns:
        The run. Its folder holds run.yaml, record.jsonl and the checkpoints.

    Raises:
        ConfigError: An option is not valid, or the folder belongs to another run.
        DataError: The showers are missing or damaged.
        Interrupted: Ctrl-C, after a checkpoint was saved; the same call resumes.
        CloudganError: The training failed, for example because a loss is NaN or infinite.
    """
    resolved, folder = resolve(
        config_keys(options),
        config=str(config) if config else None,
        run=str(run) if run else None,
    )
    train_run(resolved, folder, progress or Silent(), quiet=True, allow_open_ports=allow_open_ports)
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
    cluster_text, supervised = settings.tf_config(), settings.is_supervised()
    starts_workers = cluster_text is None and config.training.workers > 1
    _check_options(config, progress, has_workers=bool(cluster_text or starts_workers))
    cluster = read_cluster(cluster_text)
    if not (supervised or allow_open_ports):
        _check_ports(config, cluster, starts_workers=starts_workers)
    folder.check(config)
    memory = expected_memory(
        config,
        workers=len(cluster.workers) if cluster else config.training.workers,
        processes=config.training.workers if starts_workers else 1,
    )
    warning = memory.check() if memory else None
    showers = find_showers(config, folder, may_convert=cluster is None)
    with _store_may_fail(supervised):
        showers_count = count_showers(showers)
    check_can_validate(config, showers_count)
    with folder.locked() if cluster is None else nullcontext():
        # Set before the conversion imports TensorFlow, which reads these variables once.
        options = ComputeOptions()
        if not starts_workers:
            with _store_may_fail(supervised):
                saved = _saved_numerics(config, folder, cluster, progress)
            options = prepare_environment(config, saved, progress)
        shards = as_shards(showers, folder, progress)
        if not supervised and (cluster is None or cluster.is_chief):
            folder.write_config(config)
            _note_attempt(config, folder)
        if starts_workers:
            command = ("train", f"--run={folder.path}", *(["--json"] if json else []))
            LocalWorkers(
                command,
                config.training.workers,
                folder.logs,
                quiet=quiet,
                isolated=not allow_open_ports,
            ).run()
            return None
        if cluster is None or cluster.is_chief:
            _say(
                progress, warning or memory.describe() if memory else None, _validation_note(config)
            )
        outcome = _train_here(config, folder, shards, progress, options, began_seconds=began)
    return replace(outcome, memory=memory.as_json() if memory else None)


def _check_options(config: RunConfig, progress: Progress, *, has_workers: bool) -> None:
    if not config.data.path:
        raise ConfigError(
            "--data is missing; give --data=FILE.h5 or a folder from `cloudgan convert`, or run"
            " `cloudgan demo`, which simulates showers"
        )
    if config.training.strategy == "multiworker" and not has_workers:
        raise ConfigError(
            "--strategy=multiworker needs --workers=N, which starts N processes on this machine, or"
            " TF_CONFIG, which names the processes to join"
        )
    if config.training.init_from:
        from cloudgan.training.warm_start import find_warm_start

        find_warm_start(config, progress.say)


def _check_ports(config: RunConfig, cluster: Cluster | None, *, starts_workers: bool) -> None:
    """Checks that no other user will reach the servers of TensorFlow, which ask for no credentials.

    Raises:
        ConfigError: Others could, or the isolated workers could not reach their bucket.
    """
    from cloudgan.storage.bucket_shards import is_url

    if starts_workers:
        workers, url = config.training.workers, config.checkpoint.url
        one_process = f"one process instead: --workers=1 --strategy=mirrored --replicas={workers}"
        if is_url(url):
            raise ConfigError(
                f"the {workers} workers run without a network, so they cannot copy checkpoints to"
                f" {url}; run {one_process}, or give them the network and accept that others"
                " can reach their ports: --allow-open-ports"
            )
        LoopbackNetwork.check(one_process)
    elif cluster and len(cluster.workers) > 1:
        raise ConfigError(
            f"TF_CONFIG names {len(cluster.workers)} workers, whose TensorFlow servers listen on all"
            " addresses and execute what any host sends; run them with `cloudgan deploy`, or with"
            " --strategy=multiworker --workers=N on one machine. If only trusted hosts reach their"
            " ports, give --allow-open-ports"
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
    progress.start("loading TensorFlow")
    supervised = settings.is_supervised()
    if supervised:
        faulthandler.register(signal.SIGUSR1, all_threads=True)
    import_tensorflow()
    from cloudgan.training.context import make_context
    from cloudgan.training.run import train as run_training
    from cloudgan.training.stopping import StopFlag
    from cloudgan.training.strategy import translate_lost_workers

    cluster = read_cluster(settings.tf_config())
    with StopFlag() as flag, _store_may_fail(supervised), translate_lost_workers(cluster):
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
        )
        flag.install_handlers()
        outcome = run_training(context, flag, progress, start_time=began_seconds)
    if outcome.reason == "interrupted":
        raise Interrupted(f"stopped after step {outcome.step}; rerun the command to resume")
    if outcome.reason == "terminated":
        raise TryAgain(f"stopped after step {outcome.step}; rerun the command to resume")
    return outcome


@contextmanager
def _store_may_fail(supervised: bool) -> Iterator[None]:
    """Turns a failure of the store before training into a retry of a supervised worker."""
    try:
        yield
    except StoreError as error:
        if supervised:
            raise TryAgain(str(error)) from error
        raise


def describe_training(config: RunConfig) -> dict[str, Any]:
    """Returns the networks' parameter counts, the expected memory and the whole configuration."""
    import_tensorflow()
    from cloudgan.models.layers import KerasMasks
    from cloudgan.models.networks import build_discriminator, build_generator, count_parameters

    generator = build_generator(config.model)
    discriminator = build_discriminator(config.model, KerasMasks(0))
    processes = config.training.workers
    memory = expected_memory(config, workers=processes, processes=processes)
    return {
        "preset": config.model.preset,
        "generator": count_parameters(generator),
        "discriminator": count_parameters(discriminator),
        "config_hash": config.config_hash(),
        "memory": memory.as_json() if memory else None,
        "config": config.model_dump(mode="json"),
    }


def training_result(
    outcome: Outcome, folder: RunFolder, training: TrainingConfig
) -> dict[str, Any]:
    """Returns how a run ended, as `cloudgan train` prints it."""
    return {
        "run": str(folder.path),
        "ended": outcome.reason,
        "step": outcome.step,
        "epoch": outcome.epoch,
        "train_seconds": round(outcome.train_seconds, 3),
        "checkpoint": str(outcome.checkpoint),
        "quality": _quality(outcome, folder, training),
        "record": str(folder.record_file),
        "memory": outcome.memory,
    }


def _quality(
    outcome: Outcome, folder: RunFolder, training: TrainingConfig
) -> dict[str, Any] | None:
    """The best validated generator, and the program time until the stop criterion was met."""
    if not training.validates_every:
        return None
    found: dict[str, Any] = {"best": outcome.best.as_json() if outcome.best else None}
    if training.until:
        found["until"] = training.until
        found["reached"] = outcome.reason == "reached"
        run = record.read(folder.record_file) if folder.record_file.exists() else None
        found["program_seconds_to_reach"] = run.seconds_to_reach(training.ranking) if run else None
    return found


def find_showers(
    config: RunConfig, folder: RunFolder, *, may_convert: bool
) -> Path | ShowerSource | BucketShards:
    """Returns the folder of shards of a run's showers, or the source to convert or to download.

    Args:
        config: The run's configuration; `data.path` names the showers.
        folder: Of the run.
        may_convert: False for a worker of a cluster, where each worker would convert the same files.

    Raises:
        DataError: The showers are missing or damaged.
        ConfigError: They changed since the run began, or `may_convert` forbids a conversion.
    """
    from cloudgan.data.shards.manifest import has_manifest
    from cloudgan.data.sources.convert import is_current
    from cloudgan.data.sources.source import open_source
    from cloudgan.storage.bucket_shards import is_url

    named = Path(config.data.path)
    if has_manifest(named):
        return named
    if settings.is_supervised() and has_manifest(folder.shards):
        return folder.shards  # the supervisor downloaded them
    if is_url(config.data.path):
        return _in_bucket(config.data.path, folder)
    if not may_convert:
        if has_manifest(folder.shards):
            return folder.shards
        raise ConfigError(
            f"--data={config.data.path}: workers on several machines need a folder of shards; run"
            f" `cloudgan convert {config.data.path} FOLDER` once and give --data=FOLDER"
        )
    source = open_source(config.data.path)
    if is_current(folder.shards, source):
        return folder.shards
    if folder.record_file.exists():
        raise ConfigError(
            f"{config.data.path} has changed since {folder.path} was trained on it; restore the file,"
            " or give another --run"
        )
    return source


def _in_bucket(url: str, folder: RunFolder) -> Path | BucketShards:
    """Prefers the copy in the folder of a run that began, which needs no network."""
    from cloudgan.data.shards.manifest import has_manifest
    from cloudgan.storage.bucket_shards import BucketShards

    if folder.record_file.exists() and has_manifest(folder.shards):
        return folder.shards
    bucket = BucketShards.from_url(url)
    return folder.shards if bucket.is_downloaded(folder.shards) else bucket


def count_showers(showers: Path | ShowerSource | BucketShards) -> int:
    """Returns the number of showers, held-out ones included."""
    from cloudgan.data.shards.manifest import read_manifest

    return read_manifest(showers).records if isinstance(showers, Path) else showers.count


def as_shards(
    showers: Path | ShowerSource | BucketShards, folder: RunFolder, progress: Progress
) -> Path:
    """Converts or downloads showers into the run's folder, unless they are a folder of shards.

    Raises:
        DataError: A record is damaged; the message names the file and the record.
    """
    if isinstance(showers, Path):
        return showers
    from cloudgan.data.sources.source import ShowerSource

    if not isinstance(showers, ShowerSource):
        showers.download(folder.shards, progress)
        return folder.shards
    import_tensorflow()
    from cloudgan.data.sources.convert import convert

    convert(showers, folder.shards, overwrite=True, progress=progress)
    return folder.shards
