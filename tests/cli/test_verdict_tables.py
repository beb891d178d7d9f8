from __future__ import annotations

import pytest

from cli.judged import (
    AUC,
    RESPONSE,
    SEPARATION,
    SLOPE,
    a_check,
    a_failed_verdict,
    a_verdict,
    an_assessment,
)
from cloudgan.cli.verdict_tables import checks_table, condensed, floor, limits, measures_table
from cloudgan.reports.table import Mark, cell_text
from cloudgan.reports.text_table import csv_text
from cloudgan.validation.assessment import Measure


def rows(table):
    return [[cell_text(cell) for cell in row] for row in table.rows]


def test_a_check_shows_value_error_floor_limits_and_grade_to_the_same_digits():
    assert rows(checks_table(a_failed_verdict().checks)) == [
        ["energy response, 10-40 GeV", "1.050 ± 0.004", "1.001", "1 ± 0.02 / 0.05", "✗ fail"],
        ["width of the response, 10-40 GeV", "1.02 ± 0.06", "1.01", "1 ± 0.02 / 0.05", "✓ at the floor"],
        ["separation, hits", "0.030 ± 0.004", "0.018", "< 0.02 / 0.05", "✓ good"],
        ["classifier, high level", "0.83 ± 0.02", "0.49", "< 0.75 / 0.95", "✓ acceptable"],
        ["slope of the angle", "unknown", "unknown", "1 ± 0.02 / 0.05", "? unknown"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("measure", "said"),
    [(RESPONSE, "1 ± 0.02 / 0.05"), (SEPARATION, "< 0.02 / 0.05"), (AUC, "< 0.75 / 0.95")],
)
def test_limits_stand_around_an_ideal_of_one_and_above_one_of_zero_or_a_half(measure, said):
    assert limits(a_check("x", measure, "good")) == said


def test_a_floor_without_a_known_scatter_has_the_digits_of_the_error_beside_it():
    assert floor(AUC, with_error=False).text == "0.49"
    assert floor(RESPONSE).text == "1.001 ± 0.003"
    alone = Measure(name="x", value=1.0, floor=0.12345)
    assert floor(alone, with_error=False).text == "0.1235"


def test_all_numbers_stand_with_error_and_floor_and_say_what_is_at_the_floor():
    table = measures_table(an_assessment())
    assert table.columns == ("measure", "where", "found", "floor", "ideal", "at the floor")
    assert rows(table)[1] == [
        "response width", "10-40 GeV", "1.02 ± 0.06", "1.01 ± 0.05", "1", "yes",
    ]  # fmt: skip
    assert rows(table)[0][-1] == "no"
    assert rows(table)[-1] == ["angle slope", "all showers", "unknown", "unknown", "1", "unknown"]
    assert "1.0503" in csv_text(table)


def test_the_untrained_generator_stands_beside_where_there_is_one():
    before = an_assessment(RESPONSE.model_copy(update={"value": 2.0}), SLOPE)
    table = measures_table(an_assessment(), before)
    assert table.columns[2:4] == ("untrained", "found")
    assert [row[2] for row in rows(table)] == ["2.000 ± 0.004", *["unknown"] * 4]


def test_a_grade_is_a_mark_that_fails_only_where_the_gate_does():
    marks = [row[-1] for row in checks_table(a_failed_verdict().checks).rows]
    assert marks[0] == Mark(passed=False, text="fail")
    assert [mark.passed for mark in marks] == [False, True, True, True, None]


def test_of_many_bins_a_terminal_shows_the_worst_and_of_few_all():
    def bins(measure, *grades):
        found = []
        for number, grade in enumerate(grades):
            where = f"bin {number}"
            one = measure.model_copy(update={"where": where, "value": 1.01 + number / 100})
            found.append(a_check(f"{measure.name}, {where}", one, grade))
        return found

    many = bins(RESPONSE, "good", "fail", "fail", "acceptable")
    few = bins(SLOPE, "good", "good")
    shown = condensed(a_verdict("fail", *many, *few))
    assert [check.title for check in shown] == [
        "response, bin 2 (of 4)", "angle_slope, bin 0", "angle_slope, bin 1",
    ]  # fmt: skip
    assert shown[0].measure.value == pytest.approx(1.03)
    unknown = [
        *many[1:],
        a_check("response, x", RESPONSE.model_copy(update={"value": None, "where": "x"}), "fail"),
    ]
    assert condensed(a_verdict("fail", *unknown))[0].title == "response, x (of 4)"
