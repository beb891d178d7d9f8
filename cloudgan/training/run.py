"""A training run, from a configuration to a record and checkpoints. Read this first."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cloudgan.core import settings
from cloudgan.core.errors import CloudganError, ConfigError, DataError
from cloudgan.core.hardware import this_machine
from cloudgan.core.progress import Progress
from cloudgan.data.batches import TrainingSet
from cloudgan.data.epoch_sampler import EpochSampler
from cloudgan.gan.convolutions import choose_conv_impl
from cloudgan.schema.config import RunConfig
from cloudgan.schema.record import DEFAULT_INSTRUCTIONS, Numerics
from cloudgan.schema.run_folder import RunFolder
from cloudgan.training.backend import backend
from cloudgan.training.calibration import (
    BatchNormRecalibrator,
    recalibrator_of_training_set,
    scale_of_training_set,
)
from cloudgan.training.checkpoint import Checkpoint, Checkpoints, find_warm_start, restore
from cloudgan.training.cluster import ComputeOptions, read_cluster
from cloudgan.training.context import Engine, TrainedWeights, TrainingContext
from cloudgan.training.gan import Gan, build_gan, make_lr_schedules
from cloudgan.training.quality import HeldOutMetrics, QualityEvaluator, QualityHistory
from cloudgan.training.rng import Rng
from cloudgan.training.shared_work import ALONE, SharedWork
from cloudgan.training.step import GanStep
from cloudgan.training.stopping import Exchange, Outcome, StopFlag, StopTraining
from cloudgan.training.train_loop import TrainLoop, run_custom, run_fit
from cloudgan.validation.assess import quick_metrics


class Among(NamedTuple):
    """The place of this process among workers that exchange weights (`cloudgan.parallel`).

    Attributes:
        worker: Number of this worker from 0.
        workers: Number of workers; this one trains every `workers`-th step of the run.
        saved: Its checkpoint at the point from which all of them resume; None for a new run.
        join: Returns the exchange with the others, once the networks have their weights; it gets what fits an
            averaged generator.
    """

    worker: int
    workers: int
    saved: Checkpoint | None
    join: Callable[[TrainingContext, BatchNormRecalibrator | None], Exchange]


def engine_class(config: RunConfig) -> type[Engine]:
    """Imports the engine of a run, TensorFlow or JAX."""
    if config.training.engine == "jax":
        from cloudgan.training.jax_engine import JaxEngine  # noqa: PLC0415 -- without TensorFlow

        return JaxEngine
    from cloudgan.training.tensorflow_engine import TensorFlowEngine  # noqa: PLC0415 -- without JAX

    return TensorFlowEngine


def train(
    config: RunConfig,
    folder: RunFolder,
    store: Path,
    options: ComputeOptions,
    *,
    flag: StopFlag,
    progress: Progress,
    start_time: float,
    among: Among | None = None,
) -> Outcome:
    """Trains from the newest checkpoint to the configured end; the final state is saved as a checkpoint.

    The library of the run's engine is imported already, quietly; `options` are from before. `store` is
    from `cloudgan convert`, `start_time` is `time.perf_counter()` when the process began. Without `among`
    weights are exchanged with no other worker.
    """
    engines, cluster = engine_class(config), read_cluster(settings.tf_config())
    model, training, rng = config.model, config.training, Rng(config.training.seed)
    with engines.translated_errors(cluster):
        checkpoints = Checkpoints.of_run(config, folder, cluster)
        saved = among.saved if among else checkpoints.resume_point(folder, progress.say)
        engine = engines(config, cluster, threads=options.threads, progress=progress)
        flag.install_handlers()
        numerics = _numerics(config, engine, options, saved.state.numerics if saved else None)
        work = ALONE
        if cluster and engine.workers > 1:
            work = SharedWork(engine.workers, cluster.index, engine.add)
        work.agree_on_checkpoint(saved.state.step if saved else None)

        showers = TrainingSet.open(store, model, config.data, progress=progress)
        batch_size = numerics.global_batch_size
        sampler = EpochSampler(
            showers.train_counts,
            seed=training.seed,
            global_batch_size=batch_size,
            blocks_per_group=config.data.blocks_per_group,
            last_batch=config.data.last_batch,
            worker=among.worker if among else 0,  # one among others reads its own share
            workers=among.workers if among else 1,
        )
        steps_per_epoch = sampler.count / batch_size / sampler.workers
        with engine.scope():
            gan = build_gan(
                model,
                rng,
                precision=numerics.precision,
                synchronized=training.batch_norm == "synchronized",
                learning_rates=make_lr_schedules(config, batch_size, steps_per_epoch),
                conv_impl=numerics.conv_impl,
                device_stages=config.parallel.stages,
            )
            saved = _restored(saved, gan, checkpoints, folder, progress.say)
        history = QualityHistory(training, saved.state if saved else None)
        end_step = min(
            sampler.steps_through(training.epochs - 1), training.max_steps or sys.maxsize
        )
        first_step = saved.state.step if saved else 0
        context = TrainingContext(
            config=config,
            folder=folder,
            cluster=cluster,
            engine=engine,
            numerics=numerics,
            checkpoints=checkpoints,
            saved=saved,
            training_set=showers,
            sampler=sampler,
            gan=gan,
            history=history,
            end_step=end_step,
            last_step=first_step if history.stop else end_step,
            flag=flag,
            progress=progress,
            start_time=start_time,
        )
        step = GanStep(
            gan,
            model,
            rng,
            global_batch_size=batch_size,
            layer_target=np.array(showers.summary.layer_fraction),
            shape_scale=scale_of_training_set(model, showers),
        )
        engine.compile(context, step)
        recalibrator = recalibrator_of_training_set(model, rng, showers)
        if saved is None:
            with engine.scope():
                _set_first_weights(config, gan, recalibrator, showers)

        evaluator = _evaluator(context, work)
        exchange = among.join(context, recalibrator) if among else None
        loop = TrainLoop(context, TrainedWeights(context, recalibrator), evaluator, exchange)
        loop.start()
        return _outcome(loop, context)


def _outcome(loop: TrainLoop, context: TrainingContext) -> Outcome:
    """Trains to the last step, or until something stops it, and ends the record."""
    engine = context.engine
    failures: tuple[type[Exception], ...] = (CloudganError, *engine.errors)
    try:
        with engine.translated_errors(context.cluster), engine.scope():
            loop.validate_pending()
            if loop.step < context.last_step:
                run_loop = run_fit if context.config.training.loop == "fit" else run_custom
                run_loop(loop, engine.batches(loop.reading, loop.step))
    except StopTraining as stop:
        loop.record_epoch(validates=stop.reason in {"max_steps", "max_seconds"})
        # Ends here: the traceback still holds the dataset, whose release can take seconds.
        return loop.end(stop.reason)
    except failures as error:
        loop.fail(str(error))
        raise
    return loop.end("max_steps" if loop.has_all_steps else "finished")


def _evaluator(context: TrainingContext, work: SharedWork) -> QualityEvaluator:
    """Returns what measures the quality between epochs, on held-out showers if the run validates."""
    training, held_out = context.config.training, None
    if training.validates_every:
        held_out = HeldOutMetrics(
            context.config.model,
            context.training_set,
            seed=training.seed,
            measure=quick_metrics,
            work=work,
            devices=context.engine.local_devices(context.local_replicas),
        )
    return QualityEvaluator(
        *(training, context.sampler, held_out, context.history),
        flag=context.flag,
        progress=context.progress,
        start_time=context.start_time,
    )


def _numerics(
    config: RunConfig, engine: Engine, options: ComputeOptions, before: Numerics | None
) -> Numerics:
    """Returns what determines the bits in addition to the configuration; a checkpoint must fit it."""
    here, asked = backend(), config.training.precision
    precision = before.precision if before else here.resolve_precision(asked)
    training = config.training.model_copy(update={"precision": precision})
    resolved = config.model_copy(update={"training": training})
    numerics = Numerics(
        processor=this_machine().processor,
        device=here.device_kind(),
        threads=options.threads,
        replicas=engine.replicas,
        workers=engine.workers,
        global_batch_size=config.global_batch(engine.replicas),
        precision=precision,
        conv_impl=choose_conv_impl(resolved, here.conv_device(), options.conv_impl),
        instructions=settings.onednn_instructions() or DEFAULT_INSTRUCTIONS,
        **engine.software,
    )
    # The position in the data counts global batches.
    if before and numerics.global_batch_size != before.global_batch_size:
        raise ConfigError(
            f"the run was trained with a global batch of {before.global_batch_size}, not"
            f" {numerics.global_batch_size} ({numerics.replicas} replicas); use"
            f" --global-batch={before.global_batch_size} to resume it"
        )
    return numerics


def _restored(
    saved: Checkpoint | None,
    gan: Gan,
    checkpoints: Checkpoints,
    folder: RunFolder,
    say: Callable[[str], None],
) -> Checkpoint | None:
    """Restores the networks; returns the checkpoint that fitted them: one that does not is set aside.

    Every worker reads the same files, and so refuses the same ones.
    """
    while saved:
        try:
            restore(saved, gan.variables())
        except DataError as error:
            saved = checkpoints.resume_point(folder, say, refused=(saved, str(error)))
        else:
            return replace(saved, arrays={})
    return None


def _set_first_weights(
    config: RunConfig, gan: Gan, recalibrator: BatchNormRecalibrator | None, showers: TrainingSet
) -> None:
    """Sets the weights of another run, the measured tables, and statistics that fit the first weights."""
    if other := find_warm_start(config):
        restore(other, gan.variables())
    if config.model.cell_marginals:
        # Imports scipy.interpolate: an eighth of the Python time of a short training run.
        from cloudgan.training.marginal_tables import measure_marginals  # noqa: PLC0415

        gan.set_marginals(measure_marginals(config.model, showers))
    if recalibrator and not other:
        gan.init_from(recalibrator.recalibrate(gan.generator.get_weights()))
