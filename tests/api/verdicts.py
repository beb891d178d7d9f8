"""A small assessment and a small verdict, with hand-written values."""

from cloudgan.validation.assessment import Assessment, Measure, Sample
from cloudgan.validation.gates import Check, Verdict

RESPONSE = Measure(
    name="response", where="10-40 GeV", value=1.0503, error=0.0042, baseline=1.0012,
    baseline_error=0.0031, ideal=1.0, p=0.002, widths=14.2,
)  # fmt: skip
WIDTH = Measure(
    name="response_width", where="10-40 GeV", value=1.02, error=0.06, baseline=1.013, baseline_error=0.05,
    ideal=1.0, p=0.8, widths=0.4,
)  # fmt: skip
SEPARATION = Measure(
    name="separation", where="hits", value=0.03, error=0.004, baseline=0.018, baseline_error=0.004
)
AUC = Measure(name="auc", where="high level", value=0.83, error=0.02, baseline=0.49, ideal=0.5)
SLOPE = Measure(name="angle_slope", value=None, ideal=1.0)

OFF = "the energy response, 10-40 GeV, is off by +5.0 %"


def an_assessment(*measures: Measure, notes: tuple[str, ...] = ()) -> Assessment:
    """Of all measures above, or of those named."""
    sample = Sample(name="a.h5", showers=1300, cells=(51, 51, 25), energy_range_gev=(10.2, 99.95))
    return Assessment(
        generated=sample,
        reference=sample.model_copy(update={"name": "b.h5", "showers": 300}),
        seed=3,
        measures=measures or (RESPONSE, WIDTH, SEPARATION, AUC, SLOPE),
        notes=notes,
    )


def a_check(title: str, measure: Measure, grade: str, message: str = "") -> Check:
    """With limits 0.02 and 0.05, of an AUC 0.25 and 0.45."""
    good, acceptable = (0.25, 0.45) if measure.ideal == AUC.ideal else (0.02, 0.05)
    return Check(title=title, measure=measure, good=good, acceptable=acceptable, grade=grade,
                 message=message)  # fmt: skip


def a_verdict(grade: str, *checks: Check, notes: tuple[str, ...] = ()) -> Verdict:
    """Of these checks; their messages are its failures."""
    failures = tuple(check.message for check in checks if check.message)
    return Verdict(
        grade=grade,
        passed=grade not in {"cannot tell", "fail"},
        checks=checks,
        failures=failures,
        notes=notes,
    )


def a_failed_verdict() -> Verdict:
    """One check of each grade, and one that is unknown."""
    return a_verdict(
        "fail",
        a_check("energy response, 10-40 GeV", RESPONSE, "fail", OFF),
        a_check("width of the response, 10-40 GeV", WIDTH, "at the baseline"),
        a_check("separation, hits", SEPARATION, "good"),
        a_check("classifier, high level", AUC, "acceptable"),
        a_check("slope of the angle", SLOPE, "fail", "the slope of the angle is unknown"),
        notes=("angle_slope is unknown: all showers have one angle",),
    )
