"""A training run, from a configuration to a record and checkpoints. Read this first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import keras

from cloudgan.core import settings
from cloudgan.core.errors import CloudganError, DataError
from cloudgan.core.progress import Silent
from cloudgan.data.pipeline.image_buffers import ReadingTime
from cloudgan.schema.liveness import LivenessFile
from cloudgan.training.calibration import (
    BatchNormRecalibrator,
    recalibrator_of_training_set,
)
from cloudgan.training.checkpoint import restore, resume_point
from cloudgan.training.forecast import time_notice
from cloudgan.training.gan import POLICIES, Gan, build_gan, make_lr_schedules
from cloudgan.training.outcome import Outcome
from cloudgan.training.quality_evaluator import HeldOutMetrics, QualityEvaluator
from cloudgan.training.run_recorder import RunRecorder
from cloudgan.training.shared_work import ALONE
from cloudgan.training.stopping import EXIT_CODES, StopFlag, StopTraining
from cloudgan.training.train_loop import Exchange, TrainLoop
from cloudgan.training.warm_start import find_warm_start
from cloudgan.validation.acceptance.assess import quick_metrics

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.core.progress import Progress
    from cloudgan.schema.record_line import StopReason
    from cloudgan.training.context import TrainingContext
    from cloudgan.training.draws import Draws
    from cloudgan.training.engines.engine import Compiled
    from cloudgan.training.shared_work import SharedWork


def train(
    context: TrainingContext,
    flag: StopFlag,
    progress: Progress,
    *,
    start_time: float,
    join: Callable[[TrainingContext, Gan, BatchNormRecalibrator | None], Exchange] | None = None,
) -> Outcome:
    """Trains from the newest checkpoint to the configured end.

    Args:
        context: Devices, data, checkpoints.
        flag: Stop requests.
        progress: Progress display.
        start_time: `time.perf_counter()` when the process began.
        join: Returns the exchange with other workers, once the networks have their weights; None:
            the weights are exchanged with no other worker.

    Returns:
        How it ended; the final state is saved as a checkpoint.

    Raises:
        CloudganError: A loss is NaN or infinite, or a checkpoint could not be saved.
    """
    config = context.config
    work = context.engine.shared_work(context) if config.training.validates_every else ALONE
    draws = context.engine.make_draws(config.training.seed)
    gan = _networks(context, draws)
    context = _restored(context, gan, progress)
    compiled = context.engine.compile(context, gan, draws)
    recalibrator = _recalibrator(context, draws)
    step, train_seconds = _begin(context, gan, recalibrator)
    exchange = join(context, gan, recalibrator) if join else None
    reading = ReadingTime()
    held_out = _held_out(context, work)
    evaluator = QualityEvaluator(context, held_out, flag, progress, start_time=start_time)
    recorder = RunRecorder(
        context,
        gan,
        recalibrator,
        progress,
        reading,
        read_back=compiled.read_back,
        evaluator=evaluator,
        start_time=start_time,
        work=work,
        more_arrays=exchange.arrays if exchange else dict,
    )
    recorder.record_start(step, train_seconds)
    if exchange:
        exchange.begin(step)
    train_loop = TrainLoop(
        compiled.run_steps,
        context.sampler,
        config.training,
        flag=flag,
        progress=progress,
        step=step,
        train_seconds=train_seconds,
        steps_per_loop=context.steps_per_loop,
        save=recorder.save_state,
        save_due=recorder.save_due,
        dummy_iterator=compiled.blank_iterator,
        liveness=LivenessFile(settings.liveness_file()),
        exchange=exchange,
        notice=time_notice(
            config,
            progress.say if context.is_chief else Silent().say,
            device=context.numerics.device,
        ),
    )
    outcome = _run_loop(context, train_loop, recorder, compiled, reading)
    if exchange:
        exchange.leave(train_loop.step, outcome.reason)
    return outcome


def _networks(context: TrainingContext, draws: Draws) -> Gan:
    """Builds the networks with their initial weights."""
    config = context.config
    batch_size = context.numerics.global_batch_size
    steps_per_epoch = context.sampler.count / batch_size / context.sampler.workers
    learning_rates = make_lr_schedules(config, batch_size, steps_per_epoch)
    with context.engine.scope():
        return build_gan(
            config.model,
            draws,
            seed=config.training.seed,
            precision=context.numerics.precision,
            synchronized=config.training.batch_norm == "synchronized",
            learning_rates=learning_rates,
            conv_impl=context.numerics.conv_impl,
            device_stages=config.parallel.stages,
        )


def _restored(context: TrainingContext, gan: Gan, progress: Progress) -> TrainingContext:
    """Restores the networks; returns the context with the checkpoint that fitted them.

    Every worker reads the same files, and so refuses the same ones.

    Raises:
        DataError: No checkpoint fits the networks.
    """
    while saved := context.saved:
        try:
            with context.engine.scope():
                restore(saved, gan.variables())
        except DataError as error:
            saved = resume_point(
                context.checkpoints, context.folder, progress.say, refused=(saved, str(error))
            )
            context = replace(context, saved=saved)
        else:
            return replace(context, saved=replace(saved, arrays={}))
    return context


def _begin(
    context: TrainingContext, gan: Gan, recalibrator: BatchNormRecalibrator | None
) -> tuple[int, float]:
    """Initialises the networks of a new run; returns the steps and seconds of training so far."""
    if context.saved:
        return context.saved.state.step, context.saved.state.train_seconds
    model = context.config.model
    with context.engine.scope():
        other = find_warm_start(context.config)
        if other:
            restore(other, gan.variables())
        if model.cell_marginals:
            # Imports scipy.interpolate: an eighth of the Python time of a short training run.
            from cloudgan.training.marginal_tables import measure_marginals  # noqa: PLC0415

            gan.set_marginals(measure_marginals(model, context.training_set))
        if recalibrator and not other:
            gan.init_from(recalibrator.recalibrate(gan.generator.get_weights()))
    return 0, 0.0


def _recalibrator(context: TrainingContext, draws: Draws) -> BatchNormRecalibrator | None:
    keras.config.set_dtype_policy(POLICIES[context.numerics.precision])
    return recalibrator_of_training_set(context.config.model, draws, context.training_set)


def _held_out(context: TrainingContext, work: SharedWork) -> HeldOutMetrics | None:
    """Returns the quality metrics, if validation is configured."""
    config = context.config
    if not config.training.validates_every:
        return None
    return HeldOutMetrics(
        config.model,
        context.training_set,
        seed=config.training.seed,
        measure=quick_metrics,
        work=work,
        devices=context.engine.local_devices(context.local_replicas),
    )


def _run_loop(
    context: TrainingContext,
    train_loop: TrainLoop,
    recorder: RunRecorder,
    compiled: Compiled,
    reading: ReadingTime,
) -> Outcome:

    def finish_epoch(done: TrainLoop) -> None:
        is_due = recorder.evaluator.is_due(done.step)
        recorder.finish_epoch(done, compiled.held_out_losses)
        done.begin_epoch()
        if is_due:
            done.stop_if_requested()
        recorder.show_epoch(done)

    recorder.show_epoch(train_loop)
    try:
        with context.engine.scope():
            if recorder.evaluator.is_due(train_loop.step) and train_loop.step < context.last_step:
                # Waits for the compilation in the background: it runs a collective operation too.
                train_loop.stop_if_requested()
            was_pending = recorder.validate_pending(train_loop)
            if train_loop.step < context.last_step:
                if was_pending:
                    train_loop.stop_if_requested()
                compiled.train(train_loop, compiled.batches(reading, train_loop.step), finish_epoch)
    except StopTraining as stop:
        recorder.finish_epoch(
            train_loop, None, validates=stop.reason in {"max_steps", "max_seconds"}
        )
        # The traceback still holds the dataset, whose release can take seconds.
        return _end(context, train_loop, recorder, stop.reason)
    except CloudganError as error:
        recorder.record_failure(train_loop, str(error))
        raise
    except context.engine.errors as error:
        known = context.engine.known_error(error, context.cluster)
        recorder.record_failure(train_loop, str(known or error))
        if known:
            raise known from error
        raise
    return _end(context, train_loop, recorder, "finished")


def _end(
    context: TrainingContext, train_loop: TrainLoop, recorder: RunRecorder, reason: StopReason
) -> Outcome:
    """Saves a checkpoint and records the end."""
    reason = recorder.evaluator.history.stop or reason
    train_loop.end_exchanges()
    recorder.save_state(train_loop)
    recorder.record_stop(
        train_loop, reason, "" if reason in EXIT_CODES else recorder.evaluator.stop_message()
    )
    path = context.checkpoints.path_of(train_loop.step)
    best = recorder.evaluator.history.best
    return Outcome(
        reason, train_loop.step, train_loop.epoch, train_loop.train_seconds, path, best=best
    )
