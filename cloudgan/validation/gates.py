"""Which physics a generator must get right: gates, read from a file, and an assessment held to them."""

from __future__ import annotations

import math
import tomllib
from fnmatch import fnmatchcase
from importlib import resources
from typing import TYPE_CHECKING, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from cloudgan.core.errors import ConfigError, nearest
from cloudgan.validation.assessment import Part
from cloudgan.validation.known_measures import IDEALS, RATIO
from cloudgan.validation.verdict import Check, Grade, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable
    from pathlib import Path

    from cloudgan.validation.assessment import Assessment, Measure

Kind = Literal["cause", "property", "summary"]

_GRADES: tuple[Grade, ...] = ("at the floor", "good", "acceptable", "fail")
_KINDS: tuple[Kind, ...] = ("cause", "property", "summary")
_SMALLEST_RATIO = 1e-3
_ROUNDING = 1e-9  # 1.05 is 0.05 from 1
_SHIPPED = resources.files("cloudgan.validation")


class Gate(Part):
    """One threshold.

    Attributes:
        measure: Its name, one of `cloudgan.validation.known_measures.IDEALS`.
        where: Which of its bins or histograms: a name, or a pattern such as ``* GeV``; empty is the
            one over all showers. Default: all there are.
        title: For people.
        good: Distance from the ideal that is good.
        acceptable: Distance from the ideal that is acceptable; beyond it the gate fails.
        broke: What is wrong, as a sentence; ``{value}``, ``{percent}`` (away from the ideal, with
            its sign), ``{floor}``, ``{where}`` and ``{which}`` stand for what was found.
        low: What ``{which}`` says below the ideal.
        high: What ``{which}`` says above it.
        kind: How sentences are ordered. A cause explains all others and comes first, a property is
            one thing that is wrong, a summary says only that something is.
    """

    measure: str
    where: str = "*"
    title: str
    good: float = Field(ge=0)
    acceptable: float = Field(ge=0)
    broke: str
    low: str = "too low"
    high: str = "too high"
    kind: Kind = "property"

    @field_validator("measure")
    @classmethod
    def _is_known(cls, name: str) -> str:
        if name not in IDEALS:
            raise ValueError(f"no measure is called {name!r}.{nearest(name, IDEALS)}")
        return name

    @model_validator(mode="after")
    def _is_complete(self) -> Gate:
        if self.good > self.acceptable:
            raise ValueError(f"good = {self.good} is beyond acceptable = {self.acceptable}")
        try:
            self._said(value=1.0, floor=1.0, where="")
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            raise ValueError(
                f"broke = {self.broke!r} cannot be filled in ({error}); it may hold {{value}},"
                " {percent}, {floor}, {where} and {which}, each with a format such as {value:.2f}"
            ) from error
        return self

    def sentence(self, measure: Measure) -> str:
        """What broke, with its numbers."""
        if measure.value is None:
            return f"{self.title}{_at(measure)} is unknown"
        floor = measure.ideal if measure.floor is None else measure.floor
        return self._said(measure.value, floor, measure.where or "all showers")

    def _said(self, value: float, floor: float, where: str) -> str:
        away = value - IDEALS[self.measure]
        which = self.low if away < 0 else self.high
        return self.broke.format(
            value=value, percent=100 * away, floor=floor, where=where, which=which
        )


class Gates(Part):
    """A file of gates."""

    schema_version: Literal[2]
    gate: tuple[Gate, ...] = Field(min_length=1)


def load_gates(path: Path | None = None) -> Gates:
    """Reads gates from `path`, else those that come with the package.

    Raises:
        ConfigError: The file is not there, no TOML, or has unknown or missing keys.
    """
    return _read(path or _SHIPPED / "gates.toml")


def demo_gates() -> Gates:
    """What a few minutes of training on a laptop must reach."""
    return _read(_SHIPPED / "demo.toml")


def judge(assessment: Assessment, gates: Gates | None = None) -> Verdict:
    """Holds an assessment against gates; the shipped ones where there are no others.

    A number at its floor passes whatever its gate asks for: with so few showers nobody could tell.
    A gate whose measure could not be measured at all is no check, and a note says so.
    """
    gates = gates or load_gates()
    checks: list[Check] = []
    notes: list[str] = [*assessment.notes]
    broken: list[tuple[int, float, str]] = []
    for gate in gates.gate:
        found = [
            measure
            for measure in assessment.all(gate.measure)
            if fnmatchcase(measure.where, gate.where)
        ]
        if not found:
            notes.append(f"{gate.title}: not measured, so its gate says nothing")
            continue
        mine = [_check(gate, measure) for measure in found]
        checks += mine
        notes += filter(None, (_doubt(gate, check.measure, check.title) for check in mine))
        broken += _broken(gate, mine)
    grade = max((check.grade for check in checks), key=_GRADES.index, default="fail")
    return Verdict(
        grade=grade,
        passed=grade != "fail",
        checks=tuple(checks),
        broken=tuple(text for _, _, text in sorted(broken, key=lambda each: each[:2])),
        notes=tuple(notes),
    )


def _read(source: Path | Traversable) -> Gates:
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


def _check(gate: Gate, measure: Measure) -> Check:
    grade = _grade(gate, measure)
    return Check(
        title=f"{gate.title}{_at(measure)}",
        measure=measure,
        good=gate.good,
        acceptable=gate.acceptable,
        grade=grade,
        broke=gate.sentence(measure) if grade == "fail" else "",
    )


def _grade(gate: Gate, measure: Measure) -> Grade:
    away = measure.away
    if away is None:
        return "fail"
    if measure.is_at_floor:
        return "at the floor"
    if away <= gate.good + _ROUNDING:
        return "good"
    return "acceptable" if away <= gate.acceptable + _ROUNDING else "fail"


def _at(measure: Measure) -> str:
    return f", {measure.where}" if measure.where else ""


def _doubt(gate: Gate, measure: Measure, title: str) -> str:
    away = measure.floor_away
    if away is None or away <= gate.acceptable:
        return ""
    return (
        f"{title}: too few showers to judge: two halves of the reference are {away:.3g} from the"
        f" ideal themselves, {gate.acceptable:g} would be acceptable"
    )


def _broken(gate: Gate, checks: list[Check]) -> Iterator[tuple[int, float, str]]:
    """One sentence for all bins of a gate, that of the worst; with what it is sorted by."""
    failed = [check for check in checks if check.grade == "fail"]
    if not failed:
        return
    worst = max(failed, key=_severity)
    others = len(failed) - 1
    more = f" (and {others} more of {len(checks)})" if others else ""
    yield _KINDS.index(gate.kind), -_severity(worst), f"{worst.broke}{more}"


def _severity(check: Check) -> float:
    """How many times the acceptable distance; half as much is as bad as twice. Unknown comes last."""
    value, ideal = check.measure.value, check.measure.ideal
    if value is None:
        return 0.0
    if ideal == RATIO:
        return abs(math.log(max(value, _SMALLEST_RATIO))) / math.log1p(check.acceptable + 1e-12)
    return abs(value - ideal) / (check.acceptable + 1e-12)
