"""Quality of the generator: metrics on held-out showers, which epochs are validated, and what follows.

All processes of a synchronous run generate and measure a share of the showers; the chief computes the
metrics. The next checkpoint stores what the validations showed, so that a resumed run decides as one
that was never interrupted; an epoch that was saved but not validated is validated on resume.
The backend is imported where showers are generated only: the master of a run with ranks has none.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from cloudgan.core import settings
from cloudgan.core.arrays import Floats
from cloudgan.core.clock import utc_now
from cloudgan.core.errors import DataError
from cloudgan.core.progress import Progress
from cloudgan.data.batches import TrainingSet
from cloudgan.data.epoch_sampler import EpochSampler
from cloudgan.data.held_out import MOST_TO_JUDGE
from cloudgan.data.showers import Showers, central, measured_angle
from cloudgan.schema.heartbeat import LivenessFile
from cloudgan.schema.presets import Preset
from cloudgan.schema.record import Validated
from cloudgan.schema.stop_criterion import METRICS, BestCheckpoint
from cloudgan.schema.training_config import TrainingConfig
from cloudgan.training.checkpoint import State
from cloudgan.training.inference import Conditions
from cloudgan.training.shared_work import ALONE, SharedWork
from cloudgan.training.stopping import StopFlag
from cloudgan.validation.observables import PER_SHOWER, Observables, observe

_BLOCK = 25  # small, so that validation fits into memory beside the training
_MEASURED, _FAILED = 1, 2  # of a block; 0: its process was stopped before


class HeldOutReference:
    """A fixed choice of held-out showers, with which generated ones of the same conditions are compared."""

    def __init__(self, preset: Preset, showers: TrainingSet, *, seed: int, most: int) -> None:
        """Chooses at most `most` held-out showers by `seed`; they are read on first use."""
        self._shape, self._showers, self._seed = preset.image_shape, showers, seed
        self._preset, self._count = preset, min(most, showers.held_out_count)

    def __len__(self) -> int:
        return self._count

    @cached_property
    def measured(self) -> tuple[Conditions, Observables]:
        """Conditions and observables of the showers; they are read and measured once.

        Raises:
            DataError: A held-out shower has an invalid energy.
        """
        rows = np.random.default_rng(self._seed).permutation(self._showers.held_out_count)
        showers = self._showers.held_out(np.sort(rows[: len(self)]))
        if showers.ecal_gev.shape[1:] != self._shape:  # the network does not see the rest
            ecal = central(showers.ecal_gev, self._shape)
            showers = Showers(ecal, showers.energy_gev, showers.theta_rad, measured_angle(ecal))
        conditions = Conditions.of(showers, self._preset)
        return conditions, observe(
            showers, "held-back showers", requested_rad=_compared_angle(conditions)
        )

    def observe(self, generated: Showers, first: int) -> Observables:
        """Measures generated showers, the first of which has the condition `first`; they may repeat.

        Raises:
            DataError: A generated shower has an invalid energy.
        """
        asked = _compared_angle(self.measured[0])
        numbers = np.arange(first, first + len(generated))
        return observe(
            generated,
            "generated showers",
            requested_rad=asked[numbers % len(asked)],
            numbers=numbers,
        )


def _compared_angle(conditions: Conditions) -> Floats:
    """Returns the angles at which both samples are compared."""
    return conditions.angle_rad if conditions.theta_rad is None else conditions.theta_rad


class HeldOutMetrics:
    """Metrics of a generator, always with the same held-out conditions and noise."""

    def __init__(
        self,
        preset: Preset,
        showers: TrainingSet,
        *,
        seed: int,
        measure: Callable[[Observables, Observables], Mapping[str, float]],
        work: SharedWork = ALONE,
        devices: Sequence[str | None] = (None,),
    ) -> None:
        """Builds a generator for each of the `devices` of this process; None: the backend's choice.

        Call it outside of any strategy's scope. `seed` selects the reference among the held-out showers, and the
        noise; `measure` returns the metrics of generated showers against the reference.
        """
        # Not for the master of a run with ranks, which generates nothing and has no backend.
        from cloudgan.training.backend import backend  # noqa: PLC0415
        from cloudgan.training.inference import ShowerGenerator  # noqa: PLC0415

        self._on, self._devices = backend().on_device, devices
        self._generators: list[ShowerGenerator] = []
        for device in devices:
            with self._on(device):
                self._generators.append(ShowerGenerator(preset, block=_BLOCK))
        self._seed, self._measure, self.work = seed, measure, work
        self._liveness = LivenessFile(settings.liveness_file())
        self.reference = HeldOutReference(preset, showers, seed=seed, most=MOST_TO_JUDGE)

    def __len__(self) -> int:
        return len(self.reference)

    def compute(
        self, weights: Sequence[Any], progress: Progress, *, cancelled: Callable[[], bool]
    ) -> dict[str, float] | None:
        """Returns the metrics of a generator; None if a process was cancelled, which is checked between blocks.

        With several processes a collective operation. The bits do not depend on their number, and only
        the first one computes metrics: the others return none of them.

        Raises:
            DataError: A generated shower has an invalid energy; raised in the first process only.
        """
        _, reference = self.reference.measured
        for generator in self._generators:
            generator.set_weights(weights)
        status = np.zeros(self._generators[0].blocks(len(self)), np.int32)
        fields: dict[str, Any] = {
            name: np.zeros_like(getattr(reference, name)) for name in PER_SHOWER
        }
        own = self.work.parts(len(status))
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
                self._liveness.goes_on()
                if _FAILED in status:
                    break
        status, *values = self.work.joined([status, *fields.values()])
        is_first = self.work.own == 0
        if _FAILED in status:
            if is_first:
                self._observed(0, int(np.argmax(status == _FAILED)))  # raises its error
                raise DataError("generated showers: another worker cannot measure its share")
            return {}
        if not status.all():
            return None
        if not is_first:
            return {}
        fields = dict(zip(PER_SHOWER, values, strict=True))
        measured = self._measure(replace(reference, **fields), reference)
        return {name: float(value) for name, value in measured.items()}

    def _rows(self, block: int) -> range:
        return range(block * _BLOCK, min((block + 1) * _BLOCK, len(self)))

    def _observed(self, device: int, block: int) -> Observables:
        conditions, _ = self.reference.measured
        with self._on(self._devices[device]):
            showers = self._generators[device].block_of(conditions, block, seed=self._seed)
        return self.reference.observe(showers, self._rows(block).start)

    def _try(self, device: int, block: int) -> Observables | None:
        try:
            return self._observed(device, block)
        except DataError:
            return None


class QualityHistory:
    """Ranks validated checkpoints and applies the stop criterion and the early stop.

    Attributes:
        best: Best validated checkpoint; None before the first validation.
        validated_step: Step of the last validation; 0: none.
    """

    def __init__(self, training: TrainingConfig, saved: State | None) -> None:
        """Continues from the checkpoint `saved`; None: a new run."""
        self._until, self._ranking = training.until, training.ranking
        self._early_stop = training.early_stop
        self.best: BestCheckpoint | None = saved.best if saved else None
        self.validated_step = saved.validated_step if saved else 0
        self._recent = saved.recent if saved else ()

    def state(self) -> dict[str, Any]:
        """Returns its part of a checkpoint's `State`."""
        return {"best": self.best, "validated_step": self.validated_step, "recent": self._recent}

    @property
    def stop(self) -> Literal["reached", "plateau"] | None:
        """Why training should end; None: it should not."""
        if self._until and self.best and self._ranking.holds(self.best.metrics):
            return "reached"
        early = self._early_stop
        return "plateau" if early and early.is_over(self._recent, self._ranking) else None

    def add(
        self, found: BestCheckpoint, *, showers: int, seconds: float, program_seconds: float
    ) -> Validated:
        """Adds a validation with so many showers; returns its line of the record."""
        is_best = found.is_better_than(self.best, self._ranking)
        self.best = found if is_best else self.best
        self.validated_step = found.step
        smoothed: float | None = None
        # With ranks an epoch that ended before the stop is still validated; the decision holds.
        if self._early_stop and self.stop != "plateau":
            kept = (*self._recent, found.metrics)
            self._recent = kept[-self._early_stop.first_stop :]
            smoothed = self._newest_median()
        return Validated(
            time=utc_now(),
            step=found.step,
            epoch=found.epoch,
            showers=showers,
            metrics=found.metrics,
            seconds=seconds,
            ranked_by=self._ranking.name,
            best=is_best,
            until=self._until,
            reached=bool(self._until) and self._ranking.holds(found.metrics),
            smoothed=smoothed,
            plateau=self.stop == "plateau",
            program_seconds=program_seconds,
        )

    def stop_message(self) -> str:
        """Returns how close the run came to its stop criterion, or why it stopped early; else empty."""
        best = "no epoch was validated"
        if self.best:
            value = f"{self.best.value(self._ranking):.4g} after epoch {self.best.epoch + 1}"
            best = f"the best is {value} (step {self.best.step})"
        early = self._early_stop
        if self.stop == "plateau" and early:
            return (
                f"no improvement of {self._ranking.name} in {early.patience} validations (median of"
                f" {early.smooth}: {self._newest_median():.4g}): {best}"
            )
        if not self._until:
            return ""
        return f"{self._ranking} {'reached' if self.stop == 'reached' else 'not reached'}: {best}"

    def _newest_median(self) -> float | None:
        """The median of the newest numbers; None before there are enough."""
        assert self._early_stop  # noqa: S101 -- only called with one
        return next(reversed(self._early_stop.smoothed(self._recent, self._ranking)), None)


class QualityEvaluator:
    """Schedules validations and measures; requests a stop of all workers if the run should end.

    Attributes:
        history: What all validations of the run showed.
        work: Processes that validate together.
    """

    def __init__(
        self,
        training: TrainingConfig,
        sampler: EpochSampler,
        held_out: HeldOutMetrics | None,
        history: QualityHistory,
        *,
        flag: StopFlag,
        progress: Progress,
        start_time: float,
    ) -> None:
        """Continues `history`; `held_out` is None if nothing is validated."""
        self._sampler, self._every = sampler, training.validates_every
        self.history, self._held_out = history, held_out
        self.work = held_out.work if held_out else ALONE
        self._flag, self._progress, self._start_time = flag, progress, start_time

    def is_due(self, step: int) -> bool:
        """Whether an N-th epoch ended with `step` and is not validated yet."""
        if step <= self.history.validated_step:
            return False
        return self._sampler.epoch_to_validate(step, self._every) is not None

    def evaluate(self, step: int, weights: Callable[[], Sequence[Any]]) -> Validated | None:
        """Validates the generator after `step`, if it is due; returns the line of the record.

        Requests a stop of all workers if the history says that training should end. Every worker calls
        it after the same step. It returns None except on the chief, and when cancelled. `weights` returns
        those for inference: a collective operation of `work`.
        """
        if self._held_out is None or not self.is_due(step):
            return None
        held_out, began = self._held_out, time.perf_counter()
        generator = weights()
        _ = held_out.reference.measured  # held-out showers that are damaged end the run
        try:
            # A signal that stops this process: its successor then validates instead.
            cancelled = lambda: self._flag.reason in {"interrupted", "terminated"}
            metrics = held_out.compute(generator, self._progress, cancelled=cancelled)
        except DataError as error:
            self._progress.say(f"validation failed for this generator: {error}")
            metrics = dict.fromkeys(METRICS, math.nan)
        if metrics is None:
            return None
        if not metrics:  # the chief has them
            self.history.validated_step = step
            return None
        now = time.perf_counter()
        line = self.history.add(
            BestCheckpoint(step=step, epoch=self._sampler.epoch_of(step - 1), metrics=metrics),
            showers=len(held_out),
            seconds=now - began,
            program_seconds=now - self._start_time,
        )
        if self.history.stop:
            self._flag.request(self.history.stop)
        return line
