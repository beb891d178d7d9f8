"""Scaling of real runs: speed-up and efficiency, training only and end to end, and Amdahl's serial share.

Speeds are showers per second: while training, without first calls; and over the whole program, with
start-up, tracing, validation and checkpoints. Sizes with several runs have the median. The serial share
is that of the fit in `cloudgan.speed.posterior`: its work c that does not shrink, over the time of the smallest
size (Amdahl, AFIPS 30 (1967) 483, doi 10.1145/1465482.1465560); the growth of a step with the number of
workers is apart from it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from cloudgan.core.document import Document
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.schema.cost_report import at_least
from cloudgan.schema.price_row import Text
from cloudgan.speed.scaling import COVERAGE, ScalingModel, Timing, fit_scaling

POWER8_SOURCE = "doi 10.1007/978-3-030-34356-9_32"
POWER8_GPUS = 12
_ONE_GPU_MINUTES = 20 * 60 + 16
_ALL_GPUS_MINUTES = 2 * 60 + 14
_TRAINING_EFFICIENCY = 0.989


class Power8(Document):
    """Durations on one and on all GPUs, in minutes, and what follows from them."""

    source: str = POWER8_SOURCE
    gpus: int = Field(POWER8_GPUS, gt=0)
    one_gpu_minutes: float = Field(_ONE_GPU_MINUTES, gt=0, description="published")
    all_gpus_minutes: float = Field(_ALL_GPUS_MINUTES, gt=0, description="published")
    training_efficiency: float = Field(_TRAINING_EFFICIENCY, gt=0, description="published")
    speed_up: float = Field(gt=0, description="end to end, from the published durations")
    efficiency: float = Field(gt=0, description="end to end")
    serial_minutes: float = Field(gt=0, description="on any number of GPUs: the evaluation")
    serial_share: float = Field(gt=0, description="of the duration on one GPU, as in Amdahl's law")
    shared_minutes: float = Field(gt=0, description="computed: all GPUs share the evaluation")
    shared_speed_up: float = Field(gt=0, description="computed")
    shared_efficiency: float = Field(gt=0, description="computed")


def replay_power8() -> Power8:
    """Returns the published durations, and those with an evaluation that all GPUs share.

    One GPU needs T1 = t + e: training t, evaluation e. On n GPUs the training takes t / (n eta) with the
    published efficiency eta = 0.989, and the evaluation e as before::

        Tn = t / (n eta) + e   =>   e = (Tn - T1 / (n eta)) / (1 - 1 / (n eta)) = 34.4 min
        shared: t / (n eta) + e / n = 102.4 min, a speed-up of 11.9 instead of 9.07

    The shared evaluation is taken to scale without loss. Amdahl's law (AFIPS 30 (1967) 483, doi
    10.1145/1465482.1465560) names e / T1 the serial share.
    """
    one, every, n = _ONE_GPU_MINUTES, _ALL_GPUS_MINUTES, POWER8_GPUS
    gain = n * _TRAINING_EFFICIENCY
    serial = (every - one / gain) / (1 - 1 / gain)
    shared = (one - serial) / gain + serial / n
    return Power8(
        speed_up=one / every,
        efficiency=one / every / n,
        serial_minutes=serial,
        serial_share=serial / one,
        shared_minutes=shared,
        shared_speed_up=one / shared,
        shared_efficiency=one / shared / n,
    )


Kind = Literal["strong", "weak"]
_BEYOND = (2, 4)
"""Predicted sizes, times the largest measured one; and the size of POWER8, if it is larger."""


class ScalingRun(Document):
    """One run; None is unknown."""

    run: Text
    n: int = Field(ge=1, description="workers: replicas of all processes")
    devices: int = Field(ge=1, description="accelerators, or threads of a CPU")
    global_batch_size: int = Field(ge=1)
    showers: int = Field(ge=0, description="trained, with repetitions over epochs")
    training_rate: float | None = Field(description="showers/s, without first calls")
    end_to_end_rate: float | None = Field(description="showers/s of program time")
    why_unknown: str = Field(description="empty: both rates are known")
    seconds: dict[str, float | None] = Field(description="program time by activity")
    quality_name: str = Field(description="number that ranks validations; empty: not validated")
    quality: float | None = Field(description="of the best validation")
    usd: float | None = Field(description="what is known of the cost; None: nothing")
    usd_unknown: tuple[str, ...] = Field(description="line items that are not in usd")

    @property
    def cost(self) -> str:
        """Cost in words."""
        return "unknown" if self.usd is None else f"{at_least(self.usd, self.usd_unknown)} USD"


class Speed(Document):
    """Of one size, over the smallest one."""

    showers_per_second: float | None = Field(None, gt=0, description="None: not run here")
    speed_up: float = Field(gt=0)
    low: float | None = Field(
        None, gt=0, description="9 of 10 runs are between low and high, if the fitted model holds"
    )
    high: float | None = Field(None, gt=0)
    efficiency: float = Field(gt=0, description="speed-up over the ratio of devices")


class ScalingSize(Document):
    """One number of workers."""

    n: int = Field(ge=1)
    base_n: int = Field(ge=1, description="smallest size, over which the speed-ups are")
    kind: str = Field(description="measured, modelled, predicted, published or computed")
    devices: int | None = None
    global_batch_size: int | None = None
    runs: tuple[str, ...] = Field((), description="here, or in a publication")
    training: Speed | None
    end_to_end: Speed | None
    why_unknown: str = ""

    @model_validator(mode="after")
    def _has_both_or_none(self) -> Self:
        """Refuses one efficiency without the other: either alone misleads."""
        if (self.training is None) != (self.end_to_end is None):
            raise ValueError(f"n = {self.n} has one of two efficiencies")
        return self


def published_size(
    run: str, n: int, base_n: int, efficiencies: Sequence[float], kind: str
) -> ScalingSize:
    """Returns a size of another program by its efficiencies, training only and end to end."""
    training, program = (Speed(speed_up=one * n / base_n, efficiency=one) for one in efficiencies)
    return ScalingSize(
        n=n, base_n=base_n, kind=kind, runs=(run,), training=training, end_to_end=program
    )


class SerialShare(Document):
    """Share of the time of the smallest size that does not shrink; low to high: 90 % interval."""

    share: float = Field(ge=0, le=1, description="median")
    low: float = Field(ge=0, le=1)
    high: float = Field(ge=0, le=1)
    growth_per_doubling: float = Field(ge=0, description="of a step, relative: mean")


class ScalingCurve(Document):
    """Runs that differ in their number of workers only.

    With strong scaling all have one global batch, with weak scaling one batch per worker.
    """

    kind: Kind
    sizes: tuple[ScalingSize, ...] = Field(description="measured")
    training_share: SerialShare | None = None
    end_to_end_share: SerialShare | None = None
    modelled: tuple[ScalingSize, ...] = Field(
        (), description="of the fitted model: measured sizes, then larger ones, predicted"
    )
    misfits: tuple[int, ...] = Field(
        (), description="sizes that the model does not describe; they widen its intervals"
    )
    why_not_fitted: str = Field("", description="empty: the model was fitted")

    @property
    def base(self) -> ScalingSize:
        """The smallest size."""
        return self.sizes[0]

    @property
    def predicted(self) -> tuple[ScalingSize, ...]:
        """The modelled sizes that no run had."""
        return tuple(one for one in self.modelled if one.n > self.sizes[-1].n)


def scaling_curves(runs: Sequence[ScalingRun]) -> tuple[ScalingCurve, ...]:
    """Returns a strong and a weak curve for each global batch of the smallest size, where there is one.

    Args:
        runs: With networks, showers and epochs in common.

    Raises:
        ConfigError: All runs have one number of workers; or a run shares neither the global batch nor
            the batch per worker with a run of the smallest size.
    """
    least = min(run.n for run in runs)
    if all(run.n == least for run in runs):
        raise ConfigError(
            f"a speed-up needs runs with different numbers of workers, but all have n = {least};"
            " train the same run with --replicas, --workers or --nodes of another number"
        )
    found: list[ScalingCurve] = []
    related: set[str] = set()
    for batch in sorted({run.global_batch_size for run in runs if run.n == least}):
        strong = [run for run in runs if run.global_batch_size == batch]
        weak = [run for run in runs if run.global_batch_size * least == batch * run.n]
        pairs: tuple[tuple[Kind, list[ScalingRun]], ...] = (("strong", strong), ("weak", weak))
        for kind, members in pairs:
            if len({run.n for run in members}) > 1:
                found.append(_curve(kind, members))
                related |= {run.run for run in members}
    for run in runs:
        if run.run not in related:
            raise ConfigError(_without_sibling(run, least))
    return tuple(found)


def _without_sibling(run: ScalingRun, least: int) -> str:
    each = run.global_batch_size / run.n
    others = f"no run with n = {least} has" if run.n > least else "no run of another n has"
    return (
        f"{run.run} (n = {run.n}) has no sibling: {others} its global batch of"
        f" {run.global_batch_size} (strong scaling) or its batch of {each:g} per worker (weak scaling);"
        " omit it, or train such a run"
    )


def _curve(kind: Kind, runs: Sequence[ScalingRun]) -> ScalingCurve:
    places = sorted({(run.n, run.devices) for run in runs})
    groups = [[run for run in runs if (run.n, run.devices) == place] for place in places]
    curve = ScalingCurve(kind=kind, sizes=tuple(_size(group, groups[0]) for group in groups))
    try:
        training, program = models = _fitted(runs, places)
    except (ConfigError, DataError) as error:
        return curve.model_copy(update={"why_not_fitted": str(error)})
    misfits = {one.n for model in models for one in model.regimes[0].misfits}
    found = {
        "training_share": _share(training),
        "end_to_end_share": _share(program),
        "modelled": tuple(_modelled(models, n, places[-1][0]) for n in _modelled_sizes(models)),
        "misfits": tuple(sorted(misfits)),
    }
    return curve.model_copy(update=found)


def _rates(runs: Sequence[ScalingRun]) -> tuple[float, float] | None:
    """Returns the medians of both speeds over the runs that have both."""
    known = [
        (run.training_rate, run.end_to_end_rate)
        for run in runs
        if run.training_rate and run.end_to_end_rate
    ]
    if not known:
        return None
    training, program = zip(*known, strict=True)
    return statistics.median(training), statistics.median(program)


def _size(runs: Sequence[ScalingRun], smallest: Sequence[ScalingRun]) -> ScalingSize:
    first, rates, base = runs[0], _rates(runs), _rates(smallest)
    why = "; ".join(f"{run.run}: {run.why_unknown}" for run in runs if run.why_unknown)
    training = program = None
    if rates and base:
        grown = first.devices / smallest[0].devices
        training, program = (
            Speed(showers_per_second=rate, speed_up=rate / before, efficiency=rate / before / grown)
            for rate, before in zip(rates, base, strict=True)
        )
    elif rates:
        why = "no run of the smallest size has both speeds"
    return ScalingSize(
        n=first.n,
        base_n=smallest[0].n,
        kind="measured",
        devices=first.devices,
        global_batch_size=first.global_batch_size,
        runs=tuple(run.run for run in runs),
        training=training,
        end_to_end=program,
        why_unknown=why,
    )


def _fitted(
    runs: Sequence[ScalingRun], places: Sequence[tuple[int, int]]
) -> tuple[ScalingModel, ScalingModel]:
    """Fits the time of the smallest run's showers, training only and end to end.

    A step is the batch of one worker of the smallest size on each worker: with strong scaling it is a
    part of the steps that the larger runs made.

    Raises:
        ConfigError: The sizes share the same cores.
        DataError: Fewer than three sizes have both speeds.
    """
    if len({devices / n for n, devices in places}) > 1:
        shared = ", ".join(f"n = {n}: {devices}" for n, devices in places)
        raise ConfigError(f"the workers do not have equal devices or threads ({shared})")
    smallest = min(runs, key=lambda run: run.n)
    batch = smallest.global_batch_size / smallest.n
    timings: tuple[list[Timing], list[Timing]] = ([], [])
    for run in runs:
        steps = int(smallest.showers / batch / run.n)
        rates = (run.training_rate, run.end_to_end_rate)
        if not steps or not all(rates):
            continue
        for known, rate in zip(timings, rates, strict=True):
            known.append(Timing(run.n, steps * run.n * batch / (rate or 1.0), None, steps))
    return fit_scaling(timings[0]), fit_scaling(timings[1], of_programs=True)


def _share(model: ScalingModel) -> SerialShare:
    regime = model.regimes[0]
    posterior, smallest = regime.posterior, regime.sizes[0]
    steps, tail = float(smallest.steps or 1), (1 - COVERAGE) / 2
    low, middle, high = (
        fixed / (steps + fixed)
        for fixed in map(posterior.fixed_steps_quantile, (tail, 0.5, 1 - tail))
    )
    return SerialShare(share=middle, low=low, high=high, growth_per_doubling=posterior.growth)


def _modelled_sizes(models: Sequence[ScalingModel]) -> list[int]:
    """Returns the measured sizes and larger ones that have a step."""
    sizes = [size.n for size in models[0].regimes[0].sizes]
    larger = {times * sizes[-1] for times in _BEYOND} | (
        {POWER8_GPUS} if sizes[-1] < POWER8_GPUS else set()
    )
    batches = min(size.n * (size.steps or 0) for size in models[0].regimes[0].sizes)
    return [*sizes, *(n for n in sorted(larger) if n <= batches)]


def _modelled(models: Sequence[ScalingModel], n: int, largest: int) -> ScalingSize:
    least = models[0].regimes[0].sizes[0].n
    training, program = (_modelled_speed(model, n, least) for model in models)
    kind = "predicted" if n > largest else "modelled"
    return ScalingSize(n=n, base_n=least, kind=kind, training=training, end_to_end=program)


def _modelled_speed(model: ScalingModel, n: int, least: int) -> Speed:
    base, found = model.predict(least), model.predict(n)
    # Of equal showers: a whole number of steps leaves a remainder.
    base_work = base.seconds / (model.steps(least) * least)
    speed, low, high = (
        base_work * model.steps(n) * n / seconds
        for seconds in (found.seconds, found.high_seconds, found.low_seconds)
    )
    return Speed(speed_up=speed, low=low, high=high, efficiency=speed * least / n)
