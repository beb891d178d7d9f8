"""Which physics a generator must get right, and a plain word on what it did not learn."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cloudgan.core.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.validation.comparison import Comparison, Measured


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Thresholds(_Part):
    """What must hold; each is explained in gates.toml."""

    response_within: float = Field(gt=0)
    profile_z_at_most: float = Field(gt=0)
    untrained_profile_z_more_than: float = Field(ge=0)
    hits_within: float = Field(gt=0)
    angle_slope_at_least: float


class Learned(_Part):
    """Beyond which a property counts as not learned."""

    width_within: float = Field(gt=0)
    profile_xy_at_most: float = Field(gt=0)
    angle_slope_at_least: float
    rms_within: float = Field(gt=0)
    tail_within: float = Field(gt=0)
    last_layer_within: float = Field(gt=0)


class Gates(_Part):
    """The file of thresholds."""

    schema_version: Literal[1]
    gates: Thresholds
    not_learned: Learned


class Check(_Part):
    """One threshold and what was found.

    Attributes:
        name: For people, such as ``energy response, 10-40 GeV``.
        value: What was found; None is unknown, and does not pass.
        low: Least value that passes; None where there is no such limit.
        high: Largest value that passes.
        floor: The same number for two halves of the reference.
        passed: Whether the value lies between the limits.
    """

    name: str
    value: float | None
    low: float | None
    high: float | None
    floor: float | None
    passed: bool

    @property
    def limit(self) -> str:
        """The limits in words, such as ``0.92 to 1.08``."""
        if self.low is not None and self.high is not None:
            return f"{self.low:.4g} to {self.high:.4g}"
        return f"at most {self.high:.4g}" if self.low is None else f"at least {self.low:.4g}"


class Verdict(_Part):
    """All checks, and what else was found.

    Attributes:
        schema_version: 1.
        passed: Every check passed.
        checks: In the order of the gates.
        not_learned: One sentence with numbers per property that is clearly wrong.
        notes: Unknown numbers, and limits that the reference's own halves miss.
    """

    schema_version: Literal[1] = 1
    passed: bool
    checks: tuple[Check, ...]
    not_learned: tuple[str, ...]
    notes: tuple[str, ...] = ()


def load_gates(path: Path | None = None) -> Gates:
    """Reads thresholds from `path`, else those that come with the package.

    Raises:
        ConfigError: The file is not there, no TOML, or has unknown or missing keys.
    """
    source = path or resources.files("cloudgan.validation") / "gates.toml"
    try:
        return Gates.model_validate(tomllib.loads(source.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigError(f"{source}: no gates to read there ({error.strerror})") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{source}: not a TOML file ({error})") from error
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()
        )
        raise ConfigError(
            f"{source}: {problems}; compare with the gates.toml of cloudgan"
        ) from error


def judge(
    comparison: Comparison, gates: Gates | None = None, untrained: Comparison | None = None
) -> Verdict:
    """Holds a comparison against the gates; `untrained` is the same network's before training."""
    gates = gates or load_gates()
    asked = gates.gates
    checks = [
        _near_one(f"energy response, {row.low_gev:.4g}-{row.high_gev:.4g} GeV", row.response_ratio,
                  asked.response_within)
        for row in comparison.bins
    ]  # fmt: skip
    checks += [
        _check("longitudinal profile, mean error", comparison.profile_z, high=asked.profile_z_at_most),
        _near_one("hits above 0.3 MeV", comparison.hits_ratio, asked.hits_within),
        _check("measured against requested angle, slope", comparison.angle_slope,
               low=asked.angle_slope_at_least),
    ]  # fmt: skip
    notes = [*comparison.notes, *map(_doubt, checks)]
    not_learned = _failed(checks) + _not_learned(comparison, gates)
    if untrained is not None:
        checks.append(
            _check("longitudinal profile untrained, mean error", untrained.profile_z,
                   low=asked.untrained_profile_z_more_than)
        )  # fmt: skip
    return Verdict(
        passed=all(check.passed for check in checks),
        checks=tuple(checks),
        not_learned=not_learned,
        notes=tuple(note for note in notes if note),
    )


def _near_one(name: str, found: Measured, within: float) -> Check:
    return _check(name, found, low=round(1 - within, 9), high=round(1 + within, 9))


def _check(
    name: str, found: Measured, *, low: float | None = None, high: float | None = None
) -> Check:
    value = found.value
    passed = value is not None and (low is None or value >= low) and (high is None or value <= high)
    return Check(name=name, value=value, low=low, high=high, floor=found.floor, passed=passed)


def _doubt(check: Check) -> str:
    floor = check.floor
    if floor is None or (
        (check.low is None or floor >= check.low) and (check.high is None or floor <= check.high)
    ):
        return ""
    return (
        f"{check.name}: two halves of the reference give {floor:.3g} and miss the limit"
        f" ({check.limit}) themselves; too few showers to judge"
    )


def _failed(checks: list[Check]) -> tuple[str, ...]:
    return tuple(
        f"{check.name}: {'unknown' if check.value is None else f'{check.value:.3g}'},"
        f" {check.limit} was asked for"
        for check in checks
        if not check.passed
    )


def _not_learned(comparison: Comparison, gates: Gates) -> tuple[str, ...]:
    """Sentences on what no gate asks for and is clearly wrong, the lateral tails first."""
    limits = gates.not_learned
    within = {
        "energy outside the central 9 x 9 columns (the lateral tails)": (
            comparison.tail_ratio, limits.tail_within),
        "lateral width along x": (comparison.rms_x_ratio, limits.rms_within),
        "lateral width along y": (comparison.rms_y_ratio, limits.rms_within),
        "energy in the last layer": (comparison.last_layer_ratio, limits.last_layer_within),
    } | {
        f"spread of the response, {row.low_gev:.4g}-{row.high_gev:.4g} GeV": (
            row.width_ratio, limits.width_within)
        for row in comparison.bins
    }  # fmt: skip
    found = [
        f"{name}: {measured.value:.3g} times the reference ({_floor(measured)})"
        for name, (measured, limit) in within.items()
        if measured.value is not None and not 1 - limit <= measured.value <= 1 + limit
    ]
    for axis, measured in (("x", comparison.profile_x), ("y", comparison.profile_y)):
        if measured.value is not None and measured.value > limits.profile_xy_at_most:
            found.append(
                f"lateral profile along {axis}: {measured.value:.0%} mean error ({_floor(measured, '.0%')})"
            )
    slope = comparison.angle_slope
    enough = gates.gates.angle_slope_at_least  # below, the check has failed and was told
    if slope.value is not None and enough <= slope.value < limits.angle_slope_at_least:
        found.append(
            f"the whole angle: the measured one follows the requested one with slope"
            f" {slope.value:.2f} instead of 1 ({_floor(slope)})"
        )
    return tuple(found)


def _floor(measured: Measured, form: str = ".2f") -> str:
    floor = "unknown" if measured.floor is None else format(measured.floor, form)
    return f"two halves of the reference: {floor}"
