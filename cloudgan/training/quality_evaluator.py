"""Quality of the generator after every N-th epoch: which epochs are validated, and their metrics.

All processes of a synchronous run generate and measure a share of the showers; the chief computes the
metrics. An epoch that was saved but not validated is validated on resume.
"""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cloudgan.core.errors import DataError
from cloudgan.data.showers import Showers, central, measured_angle
from cloudgan.schema.stop_criterion import METRICS
from cloudgan.training.checkpoint import BestCheckpoint
from cloudgan.training.conditions import Conditions
from cloudgan.training.shared_work import ALONE
from cloudgan.validation.observables.observables import PER_SHOWER, observe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from cloudgan.core.progress import Progress
    from cloudgan.data.pipeline.training_set import TrainingSet
    from cloudgan.schema.presets import Preset
    from cloudgan.validation.observables.observables import Observables

    Floats = NDArray[np.float32]
    Measure = Callable[[Observables, Observables], Mapping[str, float]]
    from cloudgan.schema.record import Validated
    from cloudgan.training.context import TrainingContext
    from cloudgan.training.shared_work import SharedWork
    from cloudgan.training.stopping import StopFlag

SHOWERS = 500
"""Held-out showers of a validation, or all if there are fewer."""

_BLOCK = 25  # small, so that validation fits into memory beside the training

_MEASURED, _FAILED = 1, 2  # of a block; 0: its process was stopped before


class HeldOutReference:
    """A fixed choice of held-out showers, with which generated ones of the same conditions are compared."""

    def __init__(self, preset: Preset, showers: TrainingSet, *, seed: int, most: int) -> None:
        """Chooses at most `most` held-out showers by `seed`; they are read on first use."""
        self._preset, self._showers, self._seed = preset, showers, seed
        self._count = min(most, showers.held_out_count)

    def __len__(self) -> int:
        return self._count

    @cached_property
    def measured(self) -> tuple[Conditions, Observables]:
        """Conditions and observables of the showers; they are read and measured once.

        Raises:
            DataError: A held-out shower has an invalid energy.
        """
        rows = np.random.default_rng(self._seed).permutation(self._showers.held_out_count)
        chosen = np.sort(rows[: len(self)])
        showers = _seen(self._showers.held_out_rows(chosen), self._preset.image_shape)
        conditions = Conditions.of(showers, self._preset)
        requested = _requested(conditions)
        return conditions, observe(showers, "held-back showers", requested_rad=requested)

    def observe(self, generated: Showers, first: int) -> Observables:
        """Measures generated showers, the first of which has the condition `first`; they may repeat.

        Raises:
            DataError: A generated shower has an invalid energy.
        """
        asked = _requested(self.measured[0])
        numbers = np.arange(first, first + len(generated))
        return observe(
            generated,
            "generated showers",
            requested_rad=asked[numbers % len(asked)],
            numbers=numbers,
        )


class HeldOutMetrics:
    """Metrics of a generator, always with the same held-out conditions and noise."""

    def __init__(
        self,
        preset: Preset,
        showers: TrainingSet,
        *,
        seed: int,
        measure: Measure,
        work: SharedWork = ALONE,
        devices: Sequence[str | None] = (None,),
    ) -> None:
        """Builds a generator for each device; call it outside of any strategy's scope.

        Args:
            preset: Of the run.
            showers: Their held-out part is the reference.
            seed: Selects the showers and the noise.
            measure: Returns the metrics of generated showers against the reference.
            work: Processes that generate.
            devices: Of this process that generate; None: TensorFlow's choice.
        """
        # Generates with TensorFlow; JAX imports this module without it.
        import tensorflow as tf  # noqa: PLC0415

        from cloudgan.training.inference import ShowerGenerator  # noqa: PLC0415

        self._on, self._devices, self._generators = tf.device, devices, []
        for device in devices:
            with self._on(device):
                self._generators.append(ShowerGenerator(preset, block=_BLOCK))
        self._seed, self._measure, self._work = seed, measure, work
        self._reference = HeldOutReference(preset, showers, seed=seed, most=SHOWERS)

    def __len__(self) -> int:
        return len(self._reference)

    def prepare(self) -> tuple[Conditions, Observables]:
        """Reads and measures the reference on the first call.

        Raises:
            DataError: A held-out shower has an invalid energy.
        """
        return self._reference.measured

    def compute(
        self, weights: Sequence[Any], progress: Progress, *, cancelled: Callable[[], bool]
    ) -> dict[str, float] | None:
        """Returns the metrics of a generator; None if a process was cancelled.

        With several processes a collective operation. The bits do not depend on their number, and only
        the first one computes metrics: the others return none of them.

        Args:
            weights: Of the generator, in Keras order.
            progress: Progress of the generation.
            cancelled: Checked between blocks of showers.

        Raises:
            DataError: A generated shower has an invalid energy; raised in the first process only.
        """
        _, reference = self.prepare()
        for generator in self._generators:
            generator.set_weights(weights)
        status = np.zeros(self._generators[0].blocks(len(self)), np.int32)
        fields = {name: np.zeros_like(getattr(reference, name)) for name in PER_SHOWER}
        own = self._work.parts(len(status))
        progress.start("validating", sum(len(self._rows(block)) for block in own), "showers")
        with ThreadPoolExecutor(len(self._devices), "validate") as pool:
            for first in range(0, len(own), len(self._devices)):
                turn = own[first : first + len(self._devices)]
                if cancelled():
                    break
                for block, found in zip(
                    turn, pool.map(self._try, range(len(turn)), turn), strict=True
                ):
                    status[block] = _MEASURED if found else _FAILED
                    rows = self._rows(block)
                    for name in PER_SHOWER if found else ():
                        fields[name][rows.start : rows.stop] = getattr(found, name)
                    progress.advance(len(rows))
                if _FAILED in status:
                    break
        status, *values = self._work.joined([status, *fields.values()])
        return self._metrics(status, dict(zip(PER_SHOWER, values, strict=True)))

    def _metrics(
        self, status: NDArray[np.int32], fields: dict[str, Any]
    ) -> dict[str, float] | None:
        """Returns the metrics of all blocks; see `compute`."""
        is_first = self._work.own == 0
        if _FAILED in status:
            if is_first:
                self._observed(0, int(np.argmax(status == _FAILED)))  # raises its error
                raise DataError("generated showers: another worker cannot measure its share")
            return {}
        if not status.all():
            return None
        if not is_first:
            return {}
        _, reference = self.prepare()
        measured = self._measure(replace(reference, **fields), reference)
        return {name: float(value) for name, value in measured.items()}

    def _rows(self, block: int) -> range:
        return range(block * _BLOCK, min((block + 1) * _BLOCK, len(self)))

    def _try(self, device: int, block: int) -> Observables | None:
        try:
            return self._observed(device, block)
        except DataError:
            return None

    def _observed(self, device: int, block: int) -> Observables:
        conditions, _ = self.prepare()
        with self._on(self._devices[device]):
            showers = self._generators[device].block_of(conditions, block, seed=self._seed)
        return self._reference.observe(showers, self._rows(block).start)


def _requested(conditions: Conditions) -> Floats:
    """Returns the angles at which both samples are compared."""
    theta = conditions.theta_rad
    return conditions.angle_rad if theta is None else theta


def _seen(showers: Showers, shape: tuple[int, int, int]) -> Showers:
    """Cuts showers to the image of the network; measures the angle of the cut image."""
    if showers.ecal_gev.shape[1:] == shape:
        return showers
    ecal = central(showers.ecal_gev, shape)
    return Showers(ecal, showers.energy_gev, showers.theta_rad, measured_angle(ecal))


class QualityEvaluator:
    """Schedules validations and measures; requests a stop of all workers if the run should end.

    Attributes:
        history: What all validations of the run showed.
    """

    def __init__(
        self,
        context: TrainingContext,
        held_out: HeldOutMetrics | None,
        flag: StopFlag,
        progress: Progress,
        *,
        start_time: float,
    ) -> None:
        """Continues from the checkpoint of `context`; `held_out` is None if nothing is validated."""
        self._is_chief = context.is_chief
        self._sampler, self._every = context.sampler, context.config.training.validates_every
        self.history = context.quality_history()
        self._held_out, self._flag, self._progress = held_out, flag, progress
        self._start_time = start_time

    def is_due(self, step: int) -> bool:
        """Whether an N-th epoch ended with `step` and is not validated yet."""
        if not self._every or step <= self.history.validated_step:
            return False
        epoch = self._sampler.epoch_of(step - 1)
        return step == self._sampler.steps_through(epoch) and (epoch + 1) % self._every == 0

    def evaluate(self, step: int, weights: Callable[[], Sequence[Any]]) -> Validated | None:
        """Validates the generator after `step`; None except on the chief, and when cancelled.

        Requests a stop of all workers if the history says that training should end. Every worker calls
        it after the same step.

        Args:
            step: Last step of an epoch.
            weights: Returns the weights for inference.
        """
        if self._held_out is None:
            return None
        began = time.perf_counter()
        metrics = self._measure(self._held_out, weights())
        if metrics is None:
            return None
        if not self._is_chief:
            self.history.validated_step = step
            return None
        found = BestCheckpoint(step=step, epoch=self._sampler.epoch_of(step - 1), metrics=metrics)
        now = time.perf_counter()
        line = self.history.add(
            found,
            showers=len(self._held_out),
            seconds=now - began,
            program_seconds=now - self._start_time,
        )
        if self.history.stop:
            self._flag.request(self.history.stop)
        return line

    def stop_message(self) -> str:
        """Returns why the run ended by its quality, or how close it came; empty off the chief."""
        return self.history.stop_message() if self._is_chief else ""

    def _measure(self, held_out: HeldOutMetrics, weights: Sequence[Any]) -> dict[str, float] | None:
        held_out.prepare()
        try:
            return held_out.compute(weights, self._progress, cancelled=self._is_stopping)
        except DataError as error:
            self._progress.say(f"validation failed for this generator: {error}")
            return dict.fromkeys(METRICS, math.nan)

    def _is_stopping(self) -> bool:
        """Whether a signal stops this process; its successor then validates instead."""
        return self._flag.reason in {"interrupted", "terminated"}
