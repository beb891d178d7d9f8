"""Acceptance gates: thresholds read from a file, and the verdict of an assessment against them."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import Final, Literal, get_args

from pydantic import Field, field_validator, model_validator

from cloudgan.core.document import Document
from cloudgan.core.documents import read_toml, validated
from cloudgan.core.errors import ConfigError, nearest
from cloudgan.validation.assessment import IDEALS, QUADRATIC, RATIO, Assessment, Measure

Grade = Literal["at the baseline", "good", "acceptable", "cannot tell", "fail"]
"""From best to worst.

At the baseline: as near as Monte Carlo to Monte Carlo, and so many showers show a deviation that is not acceptable. Cannot tell:
they do not. The others: the difference is significant, and its size is good, acceptable or neither.
"""

DOES_NOT_APPLY: Final = "does not apply"
"""Of a check: the reference cannot have this property, so the check neither passes nor fails."""


class Check(Document):
    """One measure and its gate.

    Attributes:
        good: Deviation from the ideal that is good.
        acceptable: Deviation that is acceptable; beyond it the gate fails.
        grade: Grade of this measure; an unknown value fails, unless the check does not apply.
        message: Sentence with numbers if the check fails, else empty.
    """

    title: str
    measure: Measure
    good: float
    acceptable: float
    grade: Grade | Literal["does not apply"]
    message: str = ""


class Verdict(Document):
    """All checks of an assessment.

    Attributes:
        passed: Whether no gate failed, some check applies and there are enough showers to tell.
        needed: Showers of each sample with which all checks can tell, roughly; None: there are enough.
        failures: One sentence per failed property, worst first.
        notes: Unknown values.
        in_sample: Whether the generator was trained on showers of the reference; None: unknown.
    """

    schema_version: Literal[3] = 3
    grade: Grade
    passed: bool
    needed: int | None = None
    checks: tuple[Check, ...]
    failures: tuple[str, ...]
    notes: tuple[str, ...] = ()
    in_sample: bool | None = None


Kind = Literal["cause", "property", "summary"]

GRADES: tuple[Grade, ...] = get_args(Grade)
_KINDS: tuple[Kind, ...] = get_args(Kind)
_SMALLEST_RATIO = 1e-3
_ROUNDING = 1e-9  # 1.05 is 0.05 from 1
_PACKAGE = resources.files("cloudgan.validation")


_MAX_DEVIATION = 1e9
_MAX_WIDTH = 3
"""Digits of widths and precisions in the format of a message."""


class Gate(Document):
    """One threshold.

    Attributes:
        measure: Name of the measure, one of `cloudgan.validation.assessment.IDEALS`.
        where: Bins or histograms: a name, or a pattern such as ``* GeV``; empty selects the value over
            all showers. Default: all.
        good: Deviation from the ideal, beyond that of Monte Carlo itself, that is good.
        acceptable: Deviation that is acceptable; beyond it the gate fails if the difference is significant.
        message: Sentence for a failure. Placeholders: ``{value}``, ``{percent}`` (signed deviation),
            ``{baseline}``, ``{where}`` and ``{which}``.
        low: Text of ``{which}`` below the ideal.
        high: Text of ``{which}`` above the ideal.
        kind: Order of the failures: a cause explains others and comes first, a property is a single
            defect, a summary only states that a defect exists.
    """

    measure: str
    where: str = "*"
    title: str
    good: float = Field(ge=0, le=_MAX_DEVIATION)
    acceptable: float = Field(ge=0, le=_MAX_DEVIATION)
    message: str
    low: str = "too low"
    high: str = "too high"
    kind: Kind = "property"

    @field_validator("measure")
    @classmethod
    def _is_known(cls, name: str) -> str:
        if name not in IDEALS:
            raise ValueError(f"unknown measure {name!r}.{nearest(name, IDEALS)}")
        return name

    @model_validator(mode="after")
    def _is_complete(self) -> Gate:
        if self.good > self.acceptable:
            raise ValueError(f"good = {self.good} exceeds acceptable = {self.acceptable}")
        try:
            _check_template(self.message)
            self._format(value=1.0, baseline=1.0, where="")
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            raise ValueError(
                f"message = {self.message!r} is not a valid template ({error}); valid placeholders: {{value}},"
                " {percent}, {baseline}, {where} and {which}, with a format such as {value:.2f}"
            ) from error
        return self

    def selects(self, name: str, where: str) -> bool:
        """Whether the gate holds for a measure."""
        return name == self.measure and fnmatchcase(where, self.where)

    def sentence(self, measure: Measure) -> str:
        """Returns the failure message with its numbers."""
        if measure.value is None:
            return f"{self.title}{_at(measure)} is unknown"
        baseline = measure.ideal if measure.baseline is None else measure.baseline
        return self._format(measure.value, baseline, measure.where or "all showers")

    def _format(self, value: float, baseline: float, where: str) -> str:
        deviation = value - IDEALS[self.measure]
        which = self.low if deviation < 0 else self.high
        return self.message.format(
            value=value, percent=100 * deviation, baseline=baseline, where=where, which=which
        )


def _check_template(message: str) -> None:
    """Refuses what a message does not need: attributes of a value, and texts of any length."""
    for _, name, form, _ in string.Formatter().parse(message):
        if name and not name.isidentifier():
            raise ValueError(f"{name!r} is not a name")
        digits = re.findall(r"\d+", form or "")
        if "{" in (form or "") or any(len(each) > _MAX_WIDTH for each in digits):
            raise ValueError(f"{form!r} is not a format of a few digits")


class Gates(Document):
    """A file of gates."""

    schema_version: Literal[2]
    gate: tuple[Gate, ...] = Field(min_length=1)


def load_gates(path: Path | None = None) -> Gates:
    """Reads gates from `path`, or the default gates of the package.

    Raises:
        ConfigError: The file is missing, is not TOML, or has unknown or missing keys.
    """
    source = path or _PACKAGE / "gates.toml"
    return validated(Gates, read_toml(source), str(source), ConfigError)


def apply_gates(
    assessment: Assessment, gates: Gates | None = None, *, in_sample: bool | None = None
) -> Verdict:
    """Grades an assessment by `gates`. Default: the gates of the package.

    A gate fails if Monte Carlo against Monte Carlo of the same size deviates less in 99 % of trials, corrected for the number
    of measures, and if the deviation is larger than acceptable. A gate whose measure is missing adds a note and no check.
    """
    gates = gates or load_gates()
    checks: list[Check] = []
    notes: list[str] = [*assessment.notes]
    failures: list[tuple[int, float, str]] = []
    for gate in gates.gate:
        found = [each for each in assessment.measures if gate.selects(each.name, each.where)]
        if not found:
            notes.append(f"{gate.title}: not measured, gate skipped")
            continue
        grades = [(measure, _grade(gate, measure)) for measure in found]
        gate_checks = [
            Check(
                title=f"{gate.title}{_at(measure)}",
                measure=measure,
                good=gate.good,
                acceptable=gate.acceptable,
                grade=grade,
                message=gate.sentence(measure) if grade == "fail" else "",
            )
            for measure, grade in grades
        ]
        checks += gate_checks
        failures += _failures(gate, gate_checks)
    applied = [check.grade for check in checks if check.grade != DOES_NOT_APPLY]
    grade = max(applied, key=GRADES.index, default="fail")
    showers = min(assessment.generated.showers, assessment.reference.showers)
    needed = [_needed(check, showers) for check in checks if check.grade == "cannot tell"]
    return Verdict(
        grade=grade,
        passed=grade not in {"cannot tell", "fail"},
        needed=max(needed, default=None),
        checks=tuple(checks),
        failures=tuple(text for _, _, text in sorted(failures, key=lambda each: each[:2])),
        notes=tuple(notes),
        in_sample=in_sample,
    )


def _grade(gate: Gate, measure: Measure) -> Grade | Literal["does not apply"]:
    excess = measure.excess
    if not measure.applies:
        return DOES_NOT_APPLY
    if excess is None:
        return "fail"
    if measure.is_at_baseline:
        enough = (measure.detectable or 0.0) <= gate.acceptable + _ROUNDING
        return "at the baseline" if enough else "cannot tell"
    if excess <= gate.good + _ROUNDING:
        return "good"
    return "acceptable" if excess <= gate.acceptable + _ROUNDING else "fail"


def _needed(check: Check, showers: int) -> int:
    """Showers of each sample with which a deviation that is not acceptable is significant, to two digits."""
    short = (check.measure.detectable or 0.0) / max(check.acceptable, 1e-9)
    wanted = showers * short ** (1 if check.measure.name in QUADRATIC else 2)
    unit = int(10.0 ** max(int(math.log10(max(wanted, 1.0))) - 1, 0))
    return math.ceil(wanted / unit) * unit


def _at(measure: Measure) -> str:
    return f", {measure.where}" if measure.where else ""


def _failures(gate: Gate, checks: list[Check]) -> Iterator[tuple[int, float, str]]:
    """Yields one sentence for all failed bins of a gate, that of the worst, with its sort key."""
    failed = [check for check in checks if check.grade == "fail"]
    if not failed:
        return
    worst = max(failed, key=_severity)
    others = len(failed) - 1
    more = f" (and {others} more of {len(checks)})" if others else ""
    yield _KINDS.index(gate.kind), -_severity(worst), f"{worst.message}{more}"


def _severity(check: Check) -> float:
    """Deviation in units of the acceptable one; for ratios, half counts as much as twice. Unknown is last."""
    value, ideal = check.measure.value, check.measure.ideal
    if value is None:
        return 0.0
    if ideal == RATIO:
        return abs(math.log(max(value, _SMALLEST_RATIO))) / math.log1p(check.acceptable + 1e-12)
    return abs(value - ideal) / (check.acceptable + 1e-12)
