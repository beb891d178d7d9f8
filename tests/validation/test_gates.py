"""Gates, their file, and the verdict."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.validation.assessment import IDEALS, Assessment, Measure, Sample
from cloudgan.validation.gates import (
    Verdict,
    apply_gates,
    load_gates,
)

ONE_GATE = """
schema_version = 2
[[gate]]
measure = "hits"
where = "0.3 MeV"
title = "cells above"
good = 0.05
acceptable = 0.15
message = "Hits are {which}: {value:.2f} at {where}, {percent:+.0f} %, baseline {baseline:.2f}"
low = "rare"
"""


def measure(name, value, where="", **more):
    return Measure(name=name, where=where, value=value, ideal=IDEALS[name], **more)


def assessment(*measures, notes=()):
    sample = Sample(name="a", showers=300, cells=(21, 21, 25), energy_range_gev=(10, 20))
    return Assessment(generated=sample, reference=sample, seed=0, measures=measures, notes=notes)


@pytest.fixture
def gates(tmp_path):
    def read(text=ONE_GATE):
        path = tmp_path / "gates.toml"
        path.write_text(text)
        return load_gates(path)

    return read


def hits(value, **more):
    return assessment(measure("hits", value, "0.3 MeV", **more))


@pytest.mark.parametrize(
    ("value", "grade"),
    [(1.0, "good"), (1.05, "good"), (0.95, "good"), (1.051, "acceptable"), (0.86, "acceptable"),
     (1.16, "fail"), (0.84, "fail")],
)  # fmt: skip
def test_a_gate_grades_by_the_distance_from_the_ideal(gates, value, grade):
    verdict = apply_gates(hits(value), gates())
    assert verdict.grade == verdict.checks[0].grade == grade
    assert verdict.passed is (grade != "fail")


@pytest.mark.parametrize(
    ("value", "null", "more", "grade"),
    [
        (1.3, 0.25, {"p": 0.5, "detectable": 0.1}, "at the baseline"),
        (1.3, 0.25, {"p": 0.01, "detectable": 0.15}, "at the baseline"),
        (1.0, 0.25, {"p": 0.5, "detectable": 0.2}, "cannot tell"),
        (1.3, 0.25, {"p": 0.002, "detectable": 0.04}, "good"),
        (1.3, 0.20, {"p": 0.002, "detectable": 0.04}, "acceptable"),
        (1.3, 0.01, {"p": 0.002, "detectable": 0.1}, "fail"),
        (1.3, 0.01, {"p": 0.002, "detectable": 0.2}, "fail"),
    ],
)
def test_a_gate_fails_if_a_difference_is_significant_and_beyond_monte_carlo_not_acceptable(
    gates, value, null, more, grade
):
    verdict = apply_gates(hits(value, null=null, **more), gates())
    assert verdict.grade == grade
    assert verdict.passed is (grade not in {"cannot tell", "fail"})


def test_the_showers_needed_grow_with_the_square_of_a_difference_and_linearly_with_a_distance(
    gates,
):
    verdict = apply_gates(hits(1.0, p=0.5, detectable=0.30), gates())
    assert verdict.needed == 1200
    text = ONE_GATE.replace('"hits"\nwhere = "0.3 MeV"', '"separation"')
    found = assessment(measure("separation", 0.0, "tail", p=0.5, detectable=0.30))
    assert apply_gates(found, gates(text)).needed == 600


def test_a_failure_is_a_sentence_with_its_numbers(gates):
    verdict = apply_gates(hits(0.7, baseline=1.01), gates())
    assert verdict.failures == ("Hits are rare: 0.70 at 0.3 MeV, -30 %, baseline 1.01",)
    assert verdict.checks[0].message == verdict.failures[0]
    assert verdict.checks[0].title == "cells above, 0.3 MeV"
    assert "too high" in apply_gates(hits(1.7), gates()).failures[0]
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict


def test_what_is_unknown_fails_what_is_not_measured_is_noted_and_nothing_measured_fails(gates):
    verdict = apply_gates(hits(None), gates())
    assert verdict.grade == "fail"
    assert verdict.failures == ("cells above, 0.3 MeV is unknown",)
    text = ONE_GATE + ONE_GATE.split("2\n", 1)[1].replace("0.3 MeV", "9 MeV")
    found = assessment(measure("hits", 1.0, "0.3 MeV"), notes=("cut to 10 to 20 GeV",))
    verdict = apply_gates(found, gates(text))
    assert len(verdict.checks) == 1
    assert verdict.notes == ("cut to 10 to 20 GeV", "cells above: not measured, gate skipped")
    verdict = apply_gates(assessment(measure("tail", 1.0)), gates())
    assert (verdict.passed, verdict.checks) == (False, ())


def test_bins_of_one_gate_give_one_sentence_with_the_worst_bin():
    rows = [measure("response", v, w) for v, w in ((1.05, "10-40 GeV"), (0.8, "40-70 GeV"))]
    verdict = apply_gates(
        assessment(*rows, measure("response", 1.0, "70-100 GeV"), measure("response", 9.0))
    )
    assert [check.grade for check in verdict.checks] == ["fail", "fail", "good"]
    assert (
        "0.800 times the Monte Carlo's at 40-70 GeV (-20.0 %) (and 1 more of 3)"
        in verdict.failures[0]
    )
    assert len(verdict.failures) == 1


def test_the_worst_property_comes_first_a_cause_before_it_and_summaries_last():
    verdict = apply_gates(
        assessment(
            measure("metric", 9.0),
            measure("tail", 1.5),
            measure("hits", 0.2, "0.3 MeV"),
            measure("diversity", 0.5),
        )
    )
    words = ["too similar", "number of hits", "lateral tails", "3DGAN authors"]
    assert [word in text for word, text in zip(words, verdict.failures, strict=True)] == [True] * 4


def test_half_as_much_is_as_bad_as_twice():
    rows = measure("largest_cell", 0.3), measure("sparsity", 2.0)
    assert "blurred" in apply_gates(assessment(*rows)).failures[0]


def test_the_default_gates_fail_a_response_five_percent_off_in_one_bin():
    rows = [measure("response", value, where, null=0.006, p=p, detectable=0.02)
            for value, where, p in ((1.0, "10-13.3 GeV", 1.0), (1.05, "13.3-16.7 GeV", 0.002))]  # fmt: skip
    assert apply_gates(assessment(*rows)).grade == "fail"
    assert apply_gates(assessment(rows[0])).grade == "at the baseline"


def test_the_default_gates_cover_each_required_measure():
    requested = {gate.measure for gate in load_gates().gate}
    properties = {"response", "response_width", "profile_x", "profile_y", "profile_z", "moment_2"}
    cells = {"hits", "sparsity", "spectrum", "largest_cell", "layer_of_maximum", "tail"}
    fluctuations = {"angle_slope", "correlation", "diversity", "coverage", "layer_spread"}
    distances = {"separation", "energy_distance", "fpd", "kpd", "auc", "metric"}
    assert requested >= properties | cells | fluctuations | distances


@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        ("hits", "hit", "unknown measure 'hit'. Did you mean 'hits'?"),
        ("good = 0.05", "good = 0.5", "good = 0.5 exceeds acceptable = 0.15"),
        ("{which}", "{who}", "message = .* is not a valid template"),
        ("{value:.2f}", "{value:.2q}", "message = .* is not a valid template"),
        ("title", "titel", "titel"),
        ("schema_version = 2", "schema_version = 1", "schema_version"),
        ("good =", "= =", "not TOML"),
        ("[[gate]]", "[[gates]]", "gate: Field required"),
    ],
)
def test_a_file_with_a_mistake_is_explained(gates, was, becomes, said):
    with pytest.raises(ConfigError, match=said):
        gates(ONE_GATE.replace(was, becomes))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"missing\.toml: cannot be read"):
        load_gates(tmp_path / "missing.toml")
