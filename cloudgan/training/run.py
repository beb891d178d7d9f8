"""The story of a training run, from a configuration to a record and checkpoints. Read this first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from cloudgan.core import settings
from cloudgan.core.errors import CloudganError
from cloudgan.core.pulse import PulseFile
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
from cloudgan.training.finishing import SHOWERS, Finisher
from cloudgan.training.gan import POLICIES, Gan, build_gan
from cloudgan.training.judge import Judge
from cloudgan.training.rates import make_rates
from cloudgan.training.session import Session, compile_steps
from cloudgan.training.shape_scale import scale_of_training_set
from cloudgan.training.step import GanStep
from cloudgan.training.stopping import EXIT_CODES, StopFlag, StopTraining
from cloudgan.training.strategy import lost_worker
from cloudgan.training.validating import Validator
from cloudgan.training.warming import Warming, blank_batches, warmed
from cloudgan.validation.quality import quick_numbers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cloudgan.core.progress import Progress
    from cloudgan.training.best import Best
    from cloudgan.training.setting import Setting
    from cloudgan.training.stopping import Reason

_LOOPS = {"custom": run_custom, "fit": run_fit}


@dataclass(frozen=True)
class Outcome:
    """How a process' part of a run ended; `best` and `memory`, what was foretold, where known."""

    reason: Reason
    step: int
    epoch: int
    train_seconds: float
    checkpoint: Path
    best: Best | None = None
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
    run_steps, tester = _compiled(setting, _step(setting, gan, draws))
    finisher = _finisher(setting, draws)
    step, train_seconds = _begin(setting, gan, finisher)
    reading = ReadingTime()
    validator = Validator(setting, _judge(setting), flag, progress, began_seconds=began_seconds)
    diary = Diary(
        setting,
        gan,
        finisher,
        progress,
        reading,
        validator=validator,
        began_seconds=began_seconds,
    )
    diary.start(step, train_seconds)
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
        idle=lambda: iter(_stand_in(setting)),
        pulse=PulseFile(settings.pulse_file()),
    )
    batches = partial(_dataset, setting, reading)
    return _run_loop(setting, session, diary, batches, tester)


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


def _step(setting: Setting, gan: Gan, draws: Draws) -> GanStep:
    return GanStep(
        gan,
        setting.config.model,
        draws,
        global_batch_size=setting.numerics.global_batch_size,
        layer_target=np.array(setting.training_set.summary.layer_fraction),
        shape_scale=scale_of_training_set(setting.config.model, setting.training_set),
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


def _judge(setting: Setting) -> Judge | None:
    """What measures the generator, where that was asked for: the chief's, for all."""
    config = setting.config
    if not (config.training.validates_every and setting.is_chief):
        return None
    seed = config.training.seed
    return Judge(config.model, setting.training_set, seed=seed, measure=quick_numbers)


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


def _dataset(setting: Setting, reading: ReadingTime, step: int) -> Any:
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
    compiled.get_concrete_function(dataset.element_spec)
    return lambda: test_losses(compiled, dataset, batches)


def _run_loop(
    setting: Setting,
    session: Session,
    diary: Diary,
    dataset: Callable[[int], Any],
    tester: Any,
) -> Outcome:
    training = setting.config.training

    def finish_epoch(done: Session) -> None:
        is_due = diary.validator.is_due(done.step)
        diary.finish_epoch(done, tester)
        done.begin_epoch()
        if is_due:
            done.stop_if_asked()
        if done.epoch < training.epochs:
            diary.begin(done)

    diary.begin(session)
    try:
        with setting.strategy.scope():
            was_owed = diary.validate_owed(session)
            if session.step < setting.last_step:
                if was_owed:
                    session.stop_if_asked()
                loop = _LOOPS[training.loop]
                batches = dataset(session.step)
                loop(session, batches, epochs=training.epochs, finish_epoch=finish_epoch)
    except StopTraining as stop:
        diary.finish_epoch(session, None, validates=stop.reason in {"max_steps", "max_seconds"})
        # Here the traceback still holds the dataset: to let go of it can take seconds.
        return _end(setting, session, diary, stop.reason)
    except CloudganError as error:
        diary.failed(session, str(error))
        raise
    except tf.errors.OpError as error:
        known = reader_error(error) or lost_worker(error, setting.cluster)
        diary.failed(session, str(known or error))
        if known:
            raise known from error
        raise
    return _end(setting, session, diary, "finished")


def _end(setting: Setting, session: Session, diary: Diary, reason: Reason) -> Outcome:
    """Saves and notes the end."""
    if diary.validator.reached or setting.is_reached:
        reason = "reached"
    diary.save_session(session)
    diary.stopped(session, reason, "" if reason in EXIT_CODES else diary.validator.ending())
    path = setting.checkpoints.path_of(session.step)
    best = diary.validator.best
    return Outcome(reason, session.step, session.epoch, session.train_seconds, path, best=best)
