"""A training run, from a configuration to a record and checkpoints. Read this first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np

from cloudgan.core import settings
from cloudgan.core.errors import CloudganError, ConfigError, DataError
from cloudgan.core.hardware import this_machine
from cloudgan.core.progress import Progress
from cloudgan.data.batches import open_training_set
from cloudgan.data.epoch_sampler import EpochSampler
from cloudgan.gan.convolutions import choose_conv_impl
from cloudgan.schema.config import RunConfig
from cloudgan.schema.record import DEFAULT_INSTRUCTIONS, Numerics
from cloudgan.schema.run_folder import RunFolder
from cloudgan.training.calibration import (
    BatchNormRecalibrator,
    recalibrator_of_training_set,
    scale_of_training_set,
)
from cloudgan.training.checkpoint import Checkpoint, Checkpoints, find_warm_start, restore
from cloudgan.training.cluster import Cluster, ComputeOptions, read_cluster
from cloudgan.training.context import Engine, TrainedWeights, TrainingContext
from cloudgan.training.exchange import Exchange
from cloudgan.training.gan import POLICIES, Gan, build_gan, make_lr_schedules
from cloudgan.training.quality import HeldOutMetrics, QualityEvaluator
from cloudgan.training.rng import Rng
from cloudgan.training.shared_work import ALONE, SharedWork
from cloudgan.training.step import GanStep
from cloudgan.training.stopping import Outcome, StopFlag, StopTraining
from cloudgan.training.train_loop import TrainLoop, run_custom, run_fit
from cloudgan.validation.acceptance.assess import quick_metrics


class Among(NamedTuple):
    """The place of this process among workers that exchange weights (`cloudgan.parallel`).

    Attributes:
        worker: Number of this worker from 0.
        workers: Number of workers; this one trains every `workers`-th step of the run.
        saved: Its checkpoint at the point from which all of them resume; None for a new run.
        join: Returns the exchange with the others, once the networks have their weights.
    """

    worker: int
    workers: int
    saved: Checkpoint | None
    join: Callable[[TrainingContext, Gan, BatchNormRecalibrator | None], Exchange]


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
    with engines.translated_errors(cluster):
        checkpoints = Checkpoints.of_run(config, folder, cluster)
        saved = among.saved if among else checkpoints.resume_point(folder, progress.say)
        engine = engines(config, cluster, threads=options.threads, progress=progress)
        numerics = _numerics(config, engine, options, cluster, saved)
        if cluster and numerics.workers > 1:
            engine.agree_on_checkpoint(cluster, saved.state.step if saved else None)
        training_set = open_training_set(store, config.model, config.data, progress=progress)
        sampler = EpochSampler(
            training_set.train_counts,
            seed=config.training.seed,
            global_batch_size=numerics.global_batch_size,
            blocks_per_group=config.data.blocks_per_group,
            last_batch=config.data.last_batch,
            worker=among.worker if among else 0,
            workers=among.workers if among else 1,
        )
        context = TrainingContext(
            config=config,
            folder=folder,
            cluster=cluster,
            engine=engine,
            numerics=numerics,
            checkpoints=checkpoints,
            saved=saved,
            training_set=training_set,
            sampler=sampler,
            flag=flag,
            progress=progress,
            start_time=start_time,
        )
        flag.install_handlers()
        work = engine.shared_work(context) if config.training.validates_every else ALONE
        context, gan, recalibrator = _build(context)
        exchange = among.join(context, gan, recalibrator) if among else None
        evaluator = _evaluator(context, work)
        loop = TrainLoop(context, TrainedWeights(gan, engine, recalibrator), evaluator, exchange)
        loop.start()
        failures: tuple[type[Exception], ...] = (CloudganError, *engine.errors)
        try:
            with engines.translated_errors(cluster), engine.scope():
                loop.validate_pending()
                if loop.step < context.last_step:
                    run_loop = run_fit if config.training.loop == "fit" else run_custom
                    run_loop(loop, engine.batches(loop.reading, loop.step))
        except StopTraining as stop:
            loop.record_epoch(validates=stop.reason in {"max_steps", "max_seconds"})
            # Ends here: the traceback still holds the dataset, whose release can take seconds.
            return loop.end(stop.reason)
        except failures as error:
            loop.fail(str(error))
            raise
        return loop.end("finished")


def _numerics(
    config: RunConfig,
    engine: Engine,
    options: ComputeOptions,
    cluster: Cluster | None,
    saved: Checkpoint | None,
) -> Numerics:
    """Returns what determines the bits in addition to the configuration; a checkpoint must fit it."""
    workers = len(cluster.workers) if cluster and engine.strategy == "multiworker" else 1
    before = saved.state.numerics if saved else None
    precision = before.precision if before else engine.resolve_precision(config.training.precision)
    training = config.training.model_copy(update={"precision": precision})
    resolved = config.model_copy(update={"training": training})
    numerics = Numerics(
        processor=this_machine().processor,
        device=engine.device,
        threads=options.threads,
        replicas=engine.replicas,
        workers=workers,
        global_batch_size=config.global_batch(engine.replicas),
        precision=precision,
        conv_impl=choose_conv_impl(resolved, engine.conv_device, options.conv_impl),
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


def _build(
    context: TrainingContext,
) -> tuple[TrainingContext, Gan, BatchNormRecalibrator | None]:
    """Builds the networks and their step, with the weights of a checkpoint or the first ones.

    Returns the context with the checkpoint that fitted: one that does not is set aside.
    """
    config, engine, numerics = context.config, context.engine, context.numerics
    model, training, showers = config.model, config.training, context.training_set
    rng, batch_size = Rng(training.seed), numerics.global_batch_size
    steps_per_epoch = context.sampler.count / batch_size / context.sampler.workers
    with engine.scope():
        gan = build_gan(
            model,
            rng,
            seed=training.seed,
            precision=numerics.precision,
            synchronized=training.batch_norm == "synchronized",
            learning_rates=make_lr_schedules(config, batch_size, steps_per_epoch),
            conv_impl=numerics.conv_impl,
            device_stages=config.parallel.stages,
        )
    context = _restored(context, gan)
    step = GanStep(
        gan,
        model,
        rng,
        global_batch_size=batch_size,
        layer_target=np.array(showers.summary.layer_fraction),
        shape_scale=scale_of_training_set(model, showers),
    )
    engine.compile(context, gan, step)
    keras.config.set_dtype_policy(POLICIES[numerics.precision])
    recalibrator = recalibrator_of_training_set(model, rng, showers)
    if context.saved:
        return context, gan, recalibrator
    with engine.scope():
        other = find_warm_start(config)
        if other:
            restore(other, gan.variables())
        if model.cell_marginals:
            # Imports scipy.interpolate: an eighth of the Python time of a short training run.
            from cloudgan.training.marginal_tables import measure_marginals  # noqa: PLC0415

            gan.set_marginals(measure_marginals(model, showers))
        if recalibrator and not other:
            gan.init_from(recalibrator.recalibrate(gan.generator.get_weights()))
    return context, gan, recalibrator


def _evaluator(context: TrainingContext, work: SharedWork) -> QualityEvaluator:
    """Returns what validates the generator, in the processes of `work`, and continues its history."""
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
        *(training, context.sampler, held_out, context.quality_history()),
        flag=context.flag,
        progress=context.progress,
        start_time=context.start_time,
    )


def _restored(context: TrainingContext, gan: Gan) -> TrainingContext:
    """Restores the networks; returns the context with the checkpoint that fitted them.

    Every worker reads the same files, and so refuses the same ones.
    """
    say = context.progress.say
    while saved := context.saved:
        try:
            with context.engine.scope():
                restore(saved, gan.variables())
        except DataError as error:
            refused = saved, str(error)
            saved = context.checkpoints.resume_point(context.folder, say, refused=refused)
            context = replace(context, saved=saved)
        else:
            return replace(context, saved=replace(saved, arrays={}))
    return context
