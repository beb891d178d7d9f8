"""`cloudgan train`: trains here."""

from __future__ import annotations

import faulthandler
import signal
import sys
import time
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from cloudgan.cli.output import show, shown_progress
from cloudgan.cli.run_options import resolve
from cloudgan.cli.shared_flags import with_flags
from cloudgan.cli.tensorflow_import import import_tensorflow
from cloudgan.cli.training_flags import training_flags
from cloudgan.cli.training_showers import as_shards, count_showers, find_showers
from cloudgan.core import launch, record, settings
from cloudgan.core.errors import ConfigError, Interrupted, TryAgain
from cloudgan.core.hardware import this_machine
from cloudgan.core.held_back import check_can_validate
from cloudgan.core.tuning import Choice
from cloudgan.stores import StoreError
from cloudgan.training.cluster import read_cluster
from cloudgan.training.expected_memory import expected_memory
from cloudgan.training.job import job_of
from cloudgan.training.tuning import Decided, Tuner, handed_on
from cloudgan.training.workers import LocalWorkers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cloudgan.core.config import RunConfig, TrainingConfig
    from cloudgan.core.progress import Progress
    from cloudgan.run_folder import RunFolder
    from cloudgan.training.run import Outcome

_BEGAN = time.perf_counter()


@with_flags(training=training_flags)
def train(
    *,
    run: str | None = None,
    strategy: Literal["auto", "one", "mirrored", "multiworker", "tpu"] | None = None,
    workers: int | None = None,
    checkpoints: str | None = None,
    begin_with: str | None = None,
    describe: bool = False,
    json: bool = False,
    training: tuple[dict[str, Any], str | None] = ({}, None),
) -> None:
    """Trains here, and continues by itself where an earlier `train` of the run ended.

    Args:
        run: Folder of the run. Default: runs/NAME of the run.yaml, else runs/PRESET.
        strategy: auto takes all GPUs of this machine; multiworker joins TF_CONFIG or starts workers.
        workers: Processes to start on this machine, with --strategy=multiworker.
        checkpoints: gs://, s3:// or Azure blob URL that gets a copy of each checkpoint.
        begin_with: Folder of a run whose networks are trained on: fine-tuning, with other showers or
            losses.
        describe: Print what would be trained, with parameter counts, and stop.
        json: Print the result as JSON.
        training: What is trained, from the flags that commands share.
    """
    asked, config = training
    asked = asked | {
        "training.strategy": strategy,
        "training.workers": workers,
        "checkpoint.url": checkpoints,
        "training.begin_with": begin_with,
    }
    wanted, folder = resolve(asked, config=config, run=run)
    if describe:
        show(description(wanted), as_json=json)
        return
    with shown_progress(as_json=json) as progress:
        outcome = train_run(wanted, folder, progress, json=json)
    if outcome:
        show(_result(outcome, folder, wanted.training), as_json=json)


def train_run(
    config: RunConfig, folder: RunFolder, progress: Progress, *, json: bool = False
) -> Outcome | None:
    """Trains a run to its end; None where workers of their own did and said so.

    Raises:
        Interrupted: Ctrl-C; the run can go on.
        TryAgain: SIGTERM; likewise.
        CloudganError: The run failed.
    """
    cluster_text, supervised = settings.tf_config(), settings.is_supervised()
    starts_workers = cluster_text is None and config.training.workers > 1
    _check_asked(config, has_workers=bool(cluster_text or starts_workers))
    cluster = read_cluster(cluster_text)
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
        tuner = Tuner(progress)
        with _store_may_fail(supervised):
            job = job_of(config, folder.checkpoints, showers=showers_count, cluster=cluster)
        # TensorFlow reads what is decided here once, and the conversion imports it.
        decided = Decided(Choice()) if starts_workers else tuner.decide(job)
        shards = as_shards(showers, folder, progress)
        if not supervised and (cluster is None or cluster.is_chief):
            folder.write_config(config)
            _note_attempt(config, folder)
        if starts_workers:
            _start_workers(config, folder, handed_on(tuner.remembered(job)), json=json)
            return None
        if cluster is None or cluster.is_chief:
            _say(progress, warning or memory.describe() if memory else None, _told_epochs(config))
        outcome = _train_here(config, folder, shards, progress, decided)
    return replace(outcome, memory=memory.facts() if memory else None)


def _check_asked(config: RunConfig, *, has_workers: bool) -> None:
    if not config.data.path:
        raise ConfigError(
            "no showers named; give --data=FILE.h5 (or a folder from `cloudgan convert`), or let"
            " `cloudgan demo` simulate some"
        )
    if config.training.strategy == "multiworker" and not has_workers:
        raise ConfigError(
            "strategy multiworker needs --workers=N to start N processes here, or TF_CONFIG to"
            " join processes elsewhere"
        )
    if config.training.begin_with:
        from cloudgan.training.beginning import find_beginning

        find_beginning(config)


def _told_epochs(config: RunConfig) -> str | None:
    training = config.training
    if training.validate_every or not training.until:
        return None
    return f"--until={training.until} without --validate_every: every epoch is validated"


def _say(progress: Progress, *lines: str | None) -> None:
    for line in lines:
        if line:
            progress.say(line)


def _start_workers(config: RunConfig, folder: RunFolder, tuned: str | None, *, json: bool) -> None:
    command = ("train", f"--run={folder.path}", *(["--json"] if json else []))
    LocalWorkers(command, config.training.workers, folder.logs, tuned=tuned).run()


def _note_attempt(config: RunConfig, folder: RunFolder) -> None:
    """Adds this start to launch.json: every start is an attempt, wherever it runs."""
    path = folder.launch_file
    new = launch.Launch(run=config.name, config_hash=config.config_hash())
    known = launch.read(path) if path.exists() else new
    launch.write(path, known.with_attempt(launch.local_attempt(this_machine().describe())))


def _train_here(
    config: RunConfig, folder: RunFolder, shards: Path, progress: Progress, decided: Decided
) -> Outcome:
    progress.start("waking TensorFlow up")
    supervised = settings.is_supervised()
    if supervised:
        faulthandler.register(signal.SIGUSR1, all_threads=True)
    import_tensorflow()
    from cloudgan.training.run import train as run_training
    from cloudgan.training.setting import make_setting
    from cloudgan.training.stopping import StopFlag
    from cloudgan.training.strategy import lost_workers_told

    cluster = read_cluster(settings.tf_config())
    with StopFlag() as flag, _store_may_fail(supervised), lost_workers_told(cluster):
        if supervised:
            flag.stop_with_parent(sys.stdin)
        setting = make_setting(
            config,
            folder,
            shards,
            cluster=cluster,
            workers_here=config.training.workers if supervised else 1,
            decided=decided,
            progress=progress,
        )
        flag.take_signals()
        outcome = run_training(setting, flag, progress, began_seconds=_BEGAN)
    if outcome.reason == "interrupted":
        raise Interrupted(f"stopped after step {outcome.step}; the same command continues there")
    if outcome.reason == "terminated":
        raise TryAgain(f"stopped after step {outcome.step}; the same command continues there")
    return outcome


@contextmanager
def _store_may_fail(supervised: bool) -> Iterator[None]:
    """A store that fails before training is no reason to give a supervised run up."""
    try:
        yield
    except StoreError as error:
        if supervised:
            raise TryAgain(str(error)) from error
        raise


def description(config: RunConfig) -> dict[str, Any]:
    """What would be trained: networks with their parameters, losses, data, strategy."""
    import_tensorflow()
    from cloudgan.models.dropout import KerasMasks
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
        "memory": memory.facts() if memory else None,
        "config": config.model_dump(mode="json"),
    }


def _result(outcome: Outcome, folder: RunFolder, training: TrainingConfig) -> dict[str, Any]:
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
    """The best generator that was validated, and when what was asked for was reached."""
    if not training.validates_every:
        return None
    told: dict[str, Any] = {"best": outcome.best.as_json() if outcome.best else None}
    if training.until:
        told["until"] = training.until
        told["reached"] = outcome.reason == "reached"
        run = record.read(folder.record_file) if folder.record_file.exists() else None
        told["program_seconds_to_reach"] = run.seconds_to_reach(training.ranking) if run else None
    return told
