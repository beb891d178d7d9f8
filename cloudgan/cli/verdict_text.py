"""The verdict for people: the grade in words, the checks, what broke, what is to be known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.cli.verdict_tables import FLOOR_SAID, checks_table, condensed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.validation.assessment import Assessment, Sample
    from cloudgan.validation.verdict import Verdict

_NAMED = 3


def headline(assessment: Assessment, verdict: Verdict) -> str:
    """The grade in one line that says what it means here."""
    match verdict.grade:
        case "at the floor":
            reference = assessment.reference
            return (
                f"at the floor: not to be told from {reference.name} with {_showers(assessment)}"
                " showers"
            )
        case "good":
            return f"good: all {len(verdict.checks)} checks are within the limits for good"
        case "acceptable":
            short = [check.title for check in condensed(verdict) if check.grade == "acceptable"]
            return f"acceptable: nothing fails; acceptable, not good: {_listed(short)}"
        case _:
            broken = [text.rstrip(".") for text in verdict.broken] or ["a gate was missed"]
            more = f" (and {len(broken) - 1} more, below)" if broken[1:] else ""
            return f"fail: {_inside(broken[0])}{more}"


def lines_after_table(verdict: Verdict) -> Iterator[str]:
    """What broke, then the notes."""
    if verdict.broken:
        yield "What broke, the worst first:"
        yield from (f"  - {text}" for text in verdict.broken)
    if verdict.notes:
        yield "Notes:"
        yield from (f"  - {text}" for text in verdict.notes)


def show_verdict(assessment: Assessment, verdict: Verdict) -> None:
    """Prints headline, samples, table of checks, what broke, notes."""
    from cloudgan.cli.table_view import show_table

    print(headline(assessment, verdict))
    print(f"generated: {describe(assessment.generated)}")
    print(f"reference: {describe(assessment.reference)}")
    show_table(checks_table(condensed(verdict)))
    print(f'Limits: good / acceptable. "(of 6)": the worst of 6 bins. {FLOOR_SAID}')
    for line in lines_after_table(verdict):
        print(line)


def describe(sample: Sample) -> str:
    """Such as ``mc_a.h5, 300 showers of 51x51x25 cells, 10 to 20 GeV``."""
    cells = "x".join(map(str, sample.cells))
    low, high = sample.energy_range_gev
    return (
        f"{sample.name}, {sample.showers:,} showers of {cells} cells, {low:.4g} to {high:.4g} GeV"
    )


def _showers(assessment: Assessment) -> str:
    return f"{min(assessment.generated.showers, assessment.reference.showers):,}"


def _inside(sentence: str) -> str:
    """A sentence after a colon; names such as FPD stay as they are."""
    return sentence if sentence[1:2].isupper() else sentence[:1].lower() + sentence[1:]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
