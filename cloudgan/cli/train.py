"""`cloudgan train`: trains here."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Literal

from cloudgan.cli.output import show, shown_progress
from cloudgan.cli.run_options import resolve
from cloudgan.cli.tensorflow_import import import_tensorflow
from cloudgan.cli.training_showers import as_shards, find_showers
from cloudgan.core import launch, settings
from cloudgan.core.errors import ConfigError, Interrupted, TryAgain
from cloudgan.core.hardware import this_machine
from cloudgan.training.cluster import read_cluster
from cloudgan.training.workers import LocalWorkers

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.core.config import RunConfig
    from cloudgan.core.progress import Progress
    from cloudgan.run_folder import RunFolder
    from cloudgan.training.run import Outcome

_BEGAN = time.perf_counter()


def train(
    *,
    data: str | None = None,
    preset: str | None = None,
    config: str | None = None,
    run: str | None = None,
    epochs: int | None = None,
    batch: int | None = None,
    global_batch: int | None = None,
    loop: Literal["custom", "fit"] | None = None,
    strategy: Literal["auto", "one", "mirrored", "multiworker", "tpu"] | None = None,
    workers: int | None = None,
    replicas: int | None = None,
    precision: Literal["float32", "bfloat16", "float64"] | None = None,
    scale_lr: Literal["none", "linear", "sqrt"] | None = None,
    seed: int | None = None,
    max_steps: int | None = None,
    max_seconds: float | None = None,
    checkpoints: str | None = None,
    tensorboard: bool = False,
    describe: bool = False,
    json: bool = False,
) -> None:
    """Trains here, and continues by itself where an earlier `train` of the run ended.

    Args:
        data: Showers: HDF5 or TFRecord file, glob, comma list, or a folder from `cloudgan convert`.
        preset: paper (51x51x25, the published 3DGAN), mini (for laptops), fixed25 or smoke.
        config: A run.yaml; flags override its keys.
        run: Folder of the run. Default: runs/NAME of the run.yaml, else runs/PRESET.
        epochs: Passes over the training showers.
        batch: Showers per replica and step.
        global_batch: Showers per step of all replicas together, instead of --batch.
        loop: custom, or fit (Keras drives); both learn the same.
        strategy: auto takes all GPUs of this machine; multiworker joins TF_CONFIG or starts workers.
        workers: Processes to start on this machine, with --strategy=multiworker.
        replicas: Replicas per process; default one per GPU, one on a CPU.
        precision: Of the arithmetic; weights stay float32, or float64.
        scale_lr: Learning rate for larger global batches, with warm-up.
        seed: Of every random number.
        max_steps: Stop after this many steps.
        max_seconds: Stop after this many seconds of training.
        checkpoints: gs://, s3:// or Azure blob URL that gets a copy of each checkpoint.
        tensorboard: Write TensorBoard summaries into the run's folder.
        describe: Print what would be trained, with parameter counts, and stop.
        json: Print the result as JSON.
    """
    asked = {
        "data.path": data,
        "model.preset": preset,
        "training.epochs": epochs,
        "training.batch_per_replica": batch,
        "training.global_batch_size": global_batch,
        "training.loop": loop,
        "training.strategy": strategy,
        "training.workers": workers,
        "training.replicas": replicas,
        "training.precision": precision,
        "training.scale_lr": scale_lr,
        "training.seed": seed,
        "training.max_steps": max_steps,
        "training.max_seconds": max_seconds,
        "training.tensorboard": tensorboard or None,
        "checkpoint.url": checkpoints,
    }
    wanted, folder = resolve(asked, config=config, run=run)
    if describe:
        show(description(wanted), as_json=json)
        return
    with shown_progress(as_json=json) as progress:
        outcome = train_run(wanted, folder, progress, json=json)
    if outcome:
        show(_result(outcome, folder), as_json=json)


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
    if not config.data.path:
        raise ConfigError(
            "no showers named; give --data=FILE.h5 (or a folder from `cloudgan convert`), or let"
            " `cloudgan demo` simulate some"
        )
    starts_workers = cluster_text is None and config.training.workers > 1
    if config.training.strategy == "multiworker" and not (cluster_text or starts_workers):
        raise ConfigError(
            "strategy multiworker needs --workers=N to start N processes here, or TF_CONFIG to"
            " join processes elsewhere"
        )
    cluster = read_cluster(cluster_text)
    folder.check(config)
    showers = find_showers(config, folder, may_convert=cluster is None)
    with folder.locked() if cluster is None else nullcontext():
        shards = as_shards(showers, folder, progress)
        if cluster is None or (cluster.is_chief and not supervised):
            folder.write_config(config)
            _note_attempt(config, folder)
        if starts_workers:
            command = ("train", f"--run={folder.path}", *(["--json"] if json else []))
            LocalWorkers(command, config.training.workers, folder.logs).run()
            return None
        return _train_here(config, folder, shards, progress)


def _note_attempt(config: RunConfig, folder: RunFolder) -> None:
    """Adds this start to launch.json: every start is an attempt, wherever it runs."""
    path = folder.launch_file
    new = launch.Launch(run=config.name, config_hash=config.config_hash())
    known = launch.read(path) if path.exists() else new
    launch.write(path, known.with_attempt(launch.local_attempt(this_machine().describe())))


def _train_here(config: RunConfig, folder: RunFolder, shards: Path, progress: Progress) -> Outcome:
    progress.start("waking TensorFlow up")
    import_tensorflow()
    from cloudgan.training.run import train as run_training
    from cloudgan.training.setting import make_setting
    from cloudgan.training.stopping import StopFlag

    with StopFlag() as flag:
        cluster = read_cluster(settings.tf_config())
        if settings.is_supervised():
            flag.stop_with_parent(sys.stdin)
        setting = make_setting(
            config,
            folder,
            shards,
            cluster=cluster,
            workers_here=config.training.workers if settings.is_supervised() else 1,
            progress=progress,
        )
        flag.take_signals()
        outcome = run_training(setting, flag, progress, began_seconds=_BEGAN)
    if outcome.reason == "interrupted":
        raise Interrupted(f"stopped after step {outcome.step}; the same command continues there")
    if outcome.reason == "terminated":
        raise TryAgain(f"stopped after step {outcome.step}; the same command continues there")
    return outcome


def description(config: RunConfig) -> dict[str, Any]:
    """What would be trained: networks with their parameters, losses, data, strategy."""
    import_tensorflow()
    from cloudgan.models.dropout import KerasMasks
    from cloudgan.models.networks import build_discriminator, build_generator, count_parameters

    generator = build_generator(config.model)
    discriminator = build_discriminator(config.model, KerasMasks(0))
    return {
        "preset": config.model.preset,
        "generator": count_parameters(generator),
        "discriminator": count_parameters(discriminator),
        "config_hash": config.config_hash(),
        "config": config.model_dump(mode="json"),
    }


def _result(outcome: Outcome, folder: RunFolder) -> dict[str, Any]:
    return {
        "run": str(folder.path),
        "ended": outcome.reason,
        "step": outcome.step,
        "epoch": outcome.epoch,
        "train_seconds": round(outcome.train_seconds, 3),
        "checkpoint": str(outcome.checkpoint),
        "record": str(folder.record_file),
    }
