"""A verdict is a value: each gate, what was found there, and what broke in plain words."""

from __future__ import annotations

from typing import Literal

from cloudgan.validation.assessment import Measure, Part

Grade = Literal["at the floor", "good", "acceptable", "fail"]
"""From best to worst. At the floor: not to be told from Monte Carlo with this many showers."""


class Check(Part):
    """One measure against its gate.

    Attributes:
        title: For people, such as ``energy response, 10-40 GeV``.
        measure: What was found.
        good: Distance from the ideal that is good.
        acceptable: Distance that is acceptable; beyond it the gate fails.
        grade: Of this measure; an unknown value fails.
        broke: What is wrong, as a sentence with numbers; empty where nothing is.
    """

    title: str
    measure: Measure
    good: float
    acceptable: float
    grade: Grade
    broke: str = ""


class Verdict(Part):
    """All checks, and what else was found.

    Attributes:
        schema_version: 2.
        grade: The worst of the checks.
        passed: No gate failed.
        checks: In the order of the gates.
        broken: One sentence per property that failed, the worst first.
        notes: Unknown numbers, and gates that the reference's own halves miss.
    """

    schema_version: Literal[2] = 2
    grade: Grade
    passed: bool
    checks: tuple[Check, ...]
    broken: tuple[str, ...]
    notes: tuple[str, ...] = ()
