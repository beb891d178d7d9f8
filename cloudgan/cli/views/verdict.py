"""Prints a verdict: headline, samples, checks, failed properties, notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.api.validation_page import (
    BASELINE_NOTE,
    checks_table,
    condensed,
    describe,
    findings,
    headline,
)
from cloudgan.cli.views.output import print_table

if TYPE_CHECKING:
    from cloudgan.validation.acceptance.assessment import Assessment
    from cloudgan.validation.acceptance.gates import Verdict


def print_verdict(assessment: Assessment, verdict: Verdict) -> None:
    """Prints a verdict on standard output."""
    print(headline(assessment, verdict))
    print(f"generated: {describe(assessment.generated)}")
    print(f"reference: {describe(assessment.reference)}")
    print_table(checks_table(condensed(verdict)))
    print(f'Limits: good / acceptable. "(of 6)": the worst of 6 bins. {BASELINE_NOTE}')
    for line in findings(verdict):
        print(line)
