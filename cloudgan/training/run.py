"""The story of a training run, from a configuration to a record and checkpoints. Read this first."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from cloudgan.core import settings
from cloudgan.core.clock import utc_now
from cloudgan.core.errors import CloudganError
from cloudgan.core.hardware import this_machine
from cloudgan.core.installed_wheels import installed_wheels
from cloudgan.core.provenance import git_commit, versions
from cloudgan.core.pulse import PulseFile
from cloudgan.core.record import Started
from cloudgan.data.feed import feed, reader_error
from cloudgan.data.reading_time import ReadingTime
from cloudgan.training.beginning import find_beginning
from cloudgan.training.builtin import run_fit
from cloudgan.training.checkpoint import restore
from cloudgan.training.custom import run_custom
from cloudgan.training.diary import Diary
from cloudgan.training.draws import Draws
from cloudgan.training.evaluation import (
    compile_test,
    held_back_feed,
    test_losses,
)
from cloudgan.training.expected_memory import expected_peak_bytes
from cloudgan.training.finishing import SHOWERS, Finisher
from cloudgan.training.gan import POLICIES, Gan, build_gan
from cloudgan.training.rates import make_rates, scaled_rate
from cloudgan.training.session import Session, compile_steps
from cloudgan.training.shape_scale import scale_of_training_set
from cloudgan.training.step import GanStep
from cloudgan.training.stopping import StopFlag, StopTraining
from cloudgan.training.strategy import accelerators, lost_worker
from cloudgan.training.warming import Warming, blank_batches, warmed

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.core.progress import Progress
    from cloudgan.training.setting import Setting
    from cloudgan.training.stopping import Reason

_LOOPS = {"custom": run_custom, "fit": run_fit}


@dataclass(frozen=True)
class Outcome:
    """How a process' part of a run ended; `memory` is what was foretold, where somebody did."""

    reason: Reason
    step: int
    epoch: int
    train_seconds: float
    checkpoint: Path
    memory: dict[str, Any] | None = None


def train(setting: Setting, flag: StopFlag, progress: Progress, *, began_seconds: float) -> Outcome:
    """Trains from the newest checkpoint to the end that the configuration asks for.

    Args:
        setting: Devices, data, checkpoints.
        flag: Says when to stop early.
        progress: Shows how far it is.
        began_seconds: `time.perf_counter()` when the process began.

    Returns:
        How it ended; a checkpoint of that moment is saved in any case.

    Raises:
        CloudganError: Losses became no numbers, or state could not be saved.
    """
    config = setting.config
    draws = Draws(config.training.seed)
    gan = _networks(setting, draws)
    gan_step = GanStep(
        gan,
        config.model,
        draws,
        global_batch_size=setting.numerics.global_batch_size,
        layer_target=np.array(setting.training_set.summary.layer_fraction),
        shape_scale=scale_of_training_set(config.model, setting.training_set),
    )
    run_steps, tester = _compiled(setting, gan_step)
    finisher = _finisher(setting, draws)
    step, train_seconds = _begin(setting, gan, finisher)
    reading = ReadingTime()
    diary = Diary(setting, gan, finisher, progress, reading, began_seconds=began_seconds)
    diary.write(_started(setting, step, time.perf_counter() - began_seconds))
    if setting.saved:
        diary.resumed(*setting.saved)
    else:
        diary.save(step, train_seconds)
    session = Session(
        run_steps,
        setting.order,
        config.training,
        flag=flag,
        progress=progress,
        step=step,
        train_seconds=train_seconds,
        steps_per_loop=setting.steps_per_loop,
        save=diary.save_session,
        save_due=diary.save_due,
        pulse=PulseFile(settings.pulse_file()),
    )
    return _run_loop(setting, session, diary, reading, tester)


def _networks(setting: Setting, draws: Draws) -> Gan:
    """Builds the networks, as they begin."""
    config = setting.config
    batch_size = setting.numerics.global_batch_size
    rates = make_rates(config, batch_size, setting.order.count / batch_size)
    with setting.strategy.scope():
        return build_gan(
            config.model,
            draws,
            seed=config.training.seed,
            precision=setting.numerics.precision,
            synchronized=config.training.batch_norm == "synchronized",
            rates=rates,
            formulation=setting.numerics.formulation,
        )


def _begin(setting: Setting, gan: Gan, finisher: Finisher | None) -> tuple[int, float]:
    """Restores or calibrates the networks; returns the steps and the seconds they were trained."""
    with setting.strategy.scope():
        if setting.saved:
            state = restore(setting.saved[0], gan.variables())
            return state.step, state.train_seconds
        if other := find_beginning(setting.config):
            restore(other, gan.variables())
        elif finisher:
            gan.begin_with(finisher.finish(gan.generator))
    return 0, 0.0


def _finisher(setting: Setting, draws: Draws) -> Finisher | None:
    """Prepares what finishes generators, where the preset has something to finish.

    The training showers for it are spread over the whole set.
    """
    if not (setting.config.model.calibrated_output or setting.config.model.generator_average):
        return None
    keras.config.set_dtype_policy(POLICIES[setting.numerics.precision])
    count = setting.training_set.count
    rows = np.arange(0, count, max(1, -(-count // SHOWERS)))
    return Finisher(setting.config.model, draws, setting.training_set.train_rows(rows))


def _compiled(setting: Setting, gan_step: GanStep) -> tuple[Any, Any]:
    """The steps, and what measures the held-back losses: what will be called is being compiled."""
    run_steps = compile_steps(setting.strategy, gan_step)
    if setting.first_step >= setting.last_step:
        return run_steps, None
    warming = Warming(setting.strategy)
    run_steps = warmed(warming, run_steps, _stand_in(setting))
    if setting.order.steps_through(setting.order.epoch_of(setting.first_step)) > setting.last_step:
        return run_steps, None
    tester = warming.begin(partial(_tester, setting, gan_step))

    def test() -> Any:
        return tester.result()()

    return run_steps, test


def _stand_in(setting: Setting) -> Any:
    """A dataset whose elements are like those to train with, and take no reading."""
    batch = setting.numerics.global_batch_size // setting.numerics.replicas
    blank = blank_batches(batch, setting.config.model.image_shape)
    return setting.strategy.distribute_datasets_from_function(lambda _: blank)


def _dataset(setting: Setting, step: int, reading: ReadingTime) -> Any:
    """The global batches from `step` on, each replica with its own rows."""
    return setting.strategy.distribute_datasets_from_function(
        lambda _: feed(
            setting.training_set,
            setting.order,
            worker_first_replica=setting.first_replica,
            local_replicas=setting.local_replicas,
            replicas=setting.numerics.replicas,
            start_step=step,
            threads=setting.numerics.threads,
            reading=reading,
        )
    )


def _tester(setting: Setting, gan_step: GanStep) -> Any:
    """Returns a traced function that measures the held-back losses, None for too few showers."""
    size = setting.numerics.global_batch_size
    batches = min(setting.config.training.validation_showers, setting.training_set.held_back_count)
    batches //= size
    if not batches:
        return lambda: None
    held_back = setting.training_set.held_back_batch(batches * size)
    dataset = setting.strategy.distribute_datasets_from_function(
        lambda _: held_back_feed(
            held_back,
            global_batch_size=size,
            replicas=setting.numerics.replicas,
            own=range(setting.first_replica, setting.first_replica + setting.local_replicas),
        )
    )
    compiled = compile_test(setting.strategy, gan_step)
    compiled.get_concrete_function(next(iter(dataset)))
    return lambda: test_losses(compiled, dataset, batches)


def _run_loop(
    setting: Setting, session: Session, diary: Diary, reading: ReadingTime, tester: Any
) -> Outcome:
    training = setting.config.training

    def finish_epoch(done: Session) -> None:
        diary.finish_epoch(done, tester)

    diary.begin(session)
    try:
        if training.max_steps is None or session.step < training.max_steps:
            with setting.strategy.scope():
                _LOOPS[training.loop](
                    session,
                    _dataset(setting, session.step, reading),
                    epochs=training.epochs,
                    finish_epoch=finish_epoch,
                )
    except StopTraining as stop:
        diary.finish_epoch(session, None)
        # Here the traceback still holds the dataset: to let go of it can take seconds.
        return _end(setting, session, diary, stop.reason)
    except CloudganError as error:
        diary.stopped(session, "failed", str(error))
        raise
    except tf.errors.OpError as error:
        known = reader_error(error) or lost_worker(error, setting.cluster)
        diary.stopped(session, "failed", str(known or error))
        if known:
            raise known from error
        raise
    return _end(setting, session, diary, "finished")


def _end(setting: Setting, session: Session, diary: Diary, reason: Reason) -> Outcome:
    """Saves and notes the end."""
    diary.save_session(session)
    diary.stopped(session, reason)
    path = setting.checkpoints.path_of(session.step)
    return Outcome(reason, session.step, session.epoch, session.train_seconds, path)


def _started(setting: Setting, step: int, startup_seconds: float) -> Started:
    config = setting.config
    return Started(
        time=utc_now(),
        step=step,
        config_hash=config.config_hash(),
        training_showers=setting.training_set.count,
        held_back_showers=setting.training_set.held_back_count,
        hardware=this_machine(accelerators()),
        numerics=setting.numerics,
        versions=versions(),
        git_commit=git_commit(),
        strategy=setting.strategy_name,
        loop=config.training.loop,
        learning_rate=scaled_rate(config, setting.numerics.global_batch_size),
        told=setting.training_set.describe(),
        tuned=setting.tuned,
        startup_seconds=startup_seconds,
        expected_memory_bytes=expected_peak_bytes(config, setting.numerics),
        image=settings.image(),
        wheels=installed_wheels(),
    )
