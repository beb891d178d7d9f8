"""How many showers of a set are held back, and whether that is enough to judge a generator."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cloudgan.core.errors import ConfigError

if TYPE_CHECKING:
    from cloudgan.core.config import RunConfig

LEAST_TO_JUDGE = 200
"""With fewer, two halves of Monte Carlo differ as much as a good generator does from it."""


def held_back_every(fraction: float, showers: int) -> int:
    """Returns k where every k-th of `showers` is held back, so that there is at least one."""
    return min(max(2, round(1 / fraction)), showers)


def check_can_validate(config: RunConfig, showers: int) -> None:
    """Finds out whether a run's validations have enough held-back showers.

    Args:
        config: Of the run.
        showers: In its data, held-back ones included.

    Raises:
        ConfigError: They have not; says what would do.
    """
    if not config.training.validates_every or showers < 1:
        return
    fraction = config.data.held_back_fraction
    every = held_back_every(fraction, showers)
    count = showers // every
    if count >= LEAST_TO_JUDGE:
        return
    asked = "--until" if config.training.until else "--validate_every"
    enough = max(2, math.floor(showers / LEAST_TO_JUDGE))
    share = (
        f" set data.held_back_fraction in run.yaml to {math.ceil(100 / enough) / 100:g} or more,"
        if showers >= 2 * LEAST_TO_JUDGE
        else ""
    )
    raise ConfigError(
        f"{asked} needs at least {LEAST_TO_JUDGE} held-back showers to judge a generator by, and"
        f" {count} of {showers} are held back (data.held_back_fraction {fraction:g}): give at least"
        f" {LEAST_TO_JUDGE * max(2, round(1 / fraction))} showers,{share} or leave {asked} out"
    )
