"""The size of the held-out set, and whether it suffices to validate a generator."""

from __future__ import annotations

import math

from cloudgan.core.errors import ConfigError
from cloudgan.schema.config import RunConfig

LEAST_TO_JUDGE = 200
"""With fewer, two samples of Monte Carlo differ as much as a good generator and the Monte Carlo."""
LEAST_TO_COMPARE = 20
"""Fewer are refused; whether more suffice for a verdict, their null distributions tell."""
MOST_TO_JUDGE = 500
"""Held-out showers of a validation while training, or all if there are fewer."""


def held_out_every(fraction: float, showers: int) -> int:
    """Returns k such that every k-th shower is held out, and at least one is."""
    return min(max(2, round(1 / fraction)), showers)


def check_folds(folds: int, showers: int) -> None:
    """Checks that each of several folds has enough of all showers (0: unknown) for its validations."""
    if folds == 1 or showers < 1 or showers // folds >= LEAST_TO_JUDGE:
        return
    most = showers // LEAST_TO_JUDGE
    fewer = f"at most --folds={most}, or " if most > 1 else ""
    raise ConfigError(
        f"--folds={folds} holds out {showers // folds} of {showers} showers, and a validation needs"
        f" {LEAST_TO_JUDGE}: give {fewer}at least {folds * LEAST_TO_JUDGE} showers"
    )


def check_can_validate(config: RunConfig, showers: int, *, asks: str = "") -> None:
    """Checks that of so many showers, held-out ones included, a run holds out enough for its validations.

    `asks` is what needs them, such as a search; empty: a flag of the run, which can be omitted. Without
    validations one shower is held out, and one is trained on.
    """
    if showers == 1:
        raise ConfigError(
            "there is one shower, and training needs at least two, one of them held out: give --data more"
        )
    if not config.training.validates_every or showers < 1:
        return
    fraction = config.data.held_out_fraction
    every = held_out_every(fraction, showers)
    count = showers // every
    if count >= LEAST_TO_JUDGE:
        return
    flag = "--until" if config.training.until else "--validate-every"
    share = sufficient_share(showers)
    ways = [f"--held-out={share:g} or more"] if share else []
    ways += [f"at least {LEAST_TO_JUDGE * max(2, round(1 / fraction))} showers"]
    given = f"give {', '.join(ways)}, or omit {flag}" if not asks else f"give {', or '.join(ways)}"
    raise ConfigError(
        f"{asks or flag} needs at least {LEAST_TO_JUDGE} held-out showers, and {count} of {showers} are held"
        f" out: {given}"
    )


def sufficient_share(showers: int) -> float | None:
    """Returns the least share that holds out enough of so many showers; None: none does."""
    if showers < 2 * LEAST_TO_JUDGE:
        return None
    return math.ceil(100 / (showers // LEAST_TO_JUDGE)) / 100


def too_few_held_out(run: str, held_out: int, showers: int, needed: int) -> str:
    """Returns why a run cannot be validated on its held-out showers, and the ways out."""
    share = sufficient_share(showers)
    held = f"--held-out={share:g}" if share else "more showers"
    return (
        f"{run} held out {held_out}{f' of {showers}' if showers else ''} showers, and a verdict needs {needed}."
        f" Give Monte Carlo that it was not trained on, `cloudgan validate {run} --against=FILE`, or train a"
        f" new run with {held}"
    )
