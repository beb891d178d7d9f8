"""What a training will do, and how long it takes here once steps are measured. Imports no TensorFlow."""

from __future__ import annotations

from collections.abc import Callable

from cloudgan.core.durations import format_duration
from cloudgan.schema.config import RunConfig
from cloudgan.schema.held_out import held_out_every
from cloudgan.schema.presets import PROFILES

SMALLER = "mini"
_LONG_SECONDS = 3600


def describe_work(config: RunConfig, showers: int) -> str:
    """Returns such as ``mini, 20 epochs of 540 showers``.

    Args:
        config: Of the run.
        showers: To train on.
    """
    training = config.training
    limits = [f"{training.max_steps:,} steps"] if training.max_steps else []
    limits += [format_duration(training.max_seconds)] if training.max_seconds else []
    plural = "s" if training.epochs > 1 else ""
    work = (
        f"at most {' or '.join(limits)} on" if limits else f"{training.epochs:,} epoch{plural} of"
    )
    return f"{config.model.preset}, {work} {showers:,} showers"


def training_share(config: RunConfig, showers: int) -> int:
    """Returns how many of a run's showers it trains on."""
    every, fold = held_out_every(config.data.held_out_fraction, showers), config.data.fold
    first = every - 1 if fold is None else fold
    return showers - (showers + every - 1 - first) // every


def time_notice(
    config: RunConfig, say: Callable[[str], None], *, device: str
) -> Callable[[float], None]:
    """Returns a function that says the expected time once, at its first call.

    Args:
        config: Of the run.
        say: Shows a permanent line.
        device: On which the seconds are measured.
    """
    is_said = False

    def notice(seconds: float) -> None:
        nonlocal is_said
        if is_said or config.training.max_seconds:  # the limit is already said
            return
        is_said = True
        say(f"about {_about(seconds)} on this machine")
        if faster := _faster(config, seconds, device):
            say(faster)

    return notice


def _faster(config: RunConfig, seconds: float, device: str) -> str:
    """Names the smaller preset where a training takes hours, with its time if the ratio is measured."""
    own, smaller = PROFILES.get(config.model.network_name), PROFILES[SMALLER]
    if seconds < _LONG_SECONDS or own is None or own.cpu_rate >= smaller.cpu_rate:
        return ""
    if device != "CPU":
        return f"--preset={SMALLER} is smaller: {smaller.summary}"
    return f"--preset={SMALLER} takes about {_about(seconds * own.cpu_rate / smaller.cpu_rate)}"


def _about(seconds: float) -> str:
    """Returns two digits of a time: the first steps do not know it better."""
    seconds = max(1.0, seconds)
    value, unit = next(
        (seconds / size, unit)
        for size, unit in ((3600, "h"), (60, "min"), (1, "s"))
        if seconds >= 2 * size or size == 1
    )
    return f"{float(f'{value:.2g}'):g} {unit}"
