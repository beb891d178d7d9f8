"""A validation as headline, tables and page."""

import re
from xml.etree import ElementTree as ET

import pytest

from api.verdicts import (
    AUC,
    OFF,
    RESPONSE,
    SEPARATION,
    SLOPE,
    WIDTH,
    a_check,
    a_failed_verdict,
    a_verdict,
    an_assessment,
)
from cloudgan.data.hdf5_writer import write_hdf5
from cloudgan.data.showers import join_showers
from cloudgan.data.sources import open_source
from cloudgan.reports.page import Page, page_markdown, render
from cloudgan.reports.table import cell_text, csv_text
from cloudgan.schema.run_folder import RunFolder
from cloudgan.simulation.gflash import simulate
from cloudgan.validation.assessment import Measure
from cloudgan.validation.file_pair import provenance_table
from cloudgan.validation.observables import observe
from cloudgan.validation.overlap import OverlapRegion
from cloudgan.validation.page import (
    baseline,
    checks_table,
    condensed,
    describe,
    headline,
    limits,
    measures_table,
    training_change,
    verdict_section,
)
from cloudgan.validation.result import RunFacts, Validation, ValidationResult
from cloudgan.validation.samples import Samples, pick_pairs

BASELINE = a_check("width", WIDTH, "at the baseline")
GOOD = a_check("response", RESPONSE, "good")
SHORT = "acceptable: no check fails; not good: "
SO_SO = [a_check(f"property {n}", AUC, "acceptable") for n in range(5)]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "a.h5"
    showers = join_showers(simulate(80, seed=1, cells=(9, 9)))
    write_hdf5(path, [showers], attrs={"seed": 1})
    measured = observe(showers)
    overlap = OverlapRegion(measured, measured, matched=False, angle_known=True, notes=())
    return Validation(
        title="a.h5 against b.h5",
        reference_name="b.h5",
        samples=Samples(overlap, "a.h5", "b.h5", pairs=pick_pairs(showers, showers)),
        assessment=an_assessment(),
        verdict=a_failed_verdict(),
        run=RunFacts(RunFolder(path.parent), 3, an_assessment(), ""),
        provenance=(provenance_table("Generated: a.h5", open_source(str(path))),),
    ).page()


@pytest.fixture(scope="module")
def html(page):
    return render(page)


@pytest.mark.slow
def test_the_page_starts_with_the_grade_and_has_each_family_of_figures(page):
    assert page.lead == f"fail: {OFF}; 1 more property fails"
    assert [section.title for section in page.sections] == [
        "Showers", "Verdict", "Energy response", "Profiles", "Shape", "Cells", "Angle",
        "Correlations", "Distances", "Checks", "All measures", "Provenance",
    ]  # fmt: skip


def test_each_figure_has_axis_titles_with_units(html):
    pictures = re.findall(r"<figure>.*?(<svg.*?</svg>)", html, re.DOTALL)
    assert len(pictures) == 14
    for picture in pictures:
        shown = [text.text or "" for text in ET.fromstring(picture).iter("text")]  # noqa: S314
        named = [text for text in shown if not re.fullmatch(r"[\W\d⁻⁰¹²³⁴⁵⁶⁷⁸⁹]*", text)]
        units = ("(", "share", "ratio", "layer", "property of a shower")
        assert sum(any(unit in text for unit in units) for text in named) >= 2, named


def test_markdown_has_the_same_tables(page, html):
    text = page_markdown(page)
    for shown in ("1.050 ± 0.004", "✗ fail", "separation, hits", "untrained", "Generated: a.h5"):
        assert shown in text
        assert shown in html
    assert "<svg" not in text


def test_a_page_says_that_no_check_failed_and_counts_what_cannot_tell_as_not_passed():
    page = Page("x", sections=(verdict_section(an_assessment(), a_verdict("good")),))
    assert "No check failed." in render(page)
    checks = [a_check(f"p {n}", AUC, g) for n, g in enumerate(["good", "cannot tell", "fail"])]
    figures = verdict_section(an_assessment(), a_verdict("fail", *checks)).blocks[0].items
    assert figures[1] == (
        "1 of 3", "checks passed", "0 as near as Monte Carlo to Monte Carlo, 1 cannot tell"
    )  # fmt: skip


def graded(**grades):
    return a_verdict(
        "fail", *(a_check(title, SEPARATION, grade) for title, grade in grades.items())
    )


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"tail": "fail", "hits": "good"}, {"tail": "good", "hits": "fail"},
         "Training: of 1 check that the untrained network fails, 1 passes: tail; 1 fails only since: hits."),
        ({"tail": "fail", "hits": "fail"}, {"tail": "acceptable", "hits": "cannot tell"},
         "Training: of 2 checks that the untrained network fails, 1 passes: tail; 0 fail only since."),
        ({"tail": "fail"}, {"tail": "fail"},
         "Training: of 1 check that the untrained network fails, 0 pass; 0 fail only since."),
        ({"tail": "at the baseline", "hits": "cannot tell"}, {"tail": "at the baseline", "hits": "good"},
         "Training changed no gate: the untrained network fails none."),
        ({"tail": "good", "AUC": "acceptable", "hits": "at the baseline"},
         {"tail": "at the baseline", "AUC": "good", "hits": "good"},
         ("Training changed no gate: the untrained network fails none. Of 2 checks in which it differs significantly"
          " from Monte Carlo, 1 no longer differs: tail; 1 differs only since: hits.")),
    ],
)  # fmt: skip
def test_one_line_says_what_training_changed(before, after, said):
    assert training_change(graded(**after), graded(**before)) == said


def rows(table):
    return [[cell_text(cell) for cell in row] for row in table.rows]


def test_a_check_shows_value_error_baseline_limits_and_grade_to_the_same_digits():
    table = checks_table(a_failed_verdict().checks)
    assert [row[-1].passed for row in table.rows] == [False, True, True, True, None]
    assert rows(table) == [
        ["energy response, 10-40 GeV", "1.050 ± 0.004", "1.001", "0.002", "1 ± 0.02 / 0.05", "✗ fail"],
        ["width of the response, 10-40 GeV", "1.02 ± 0.06", "1.01", "0.800", "1 ± 0.02 / 0.05", "✓ at the baseline"],
        ["separation, hits", "0.030 ± 0.004", "0.018", "unknown", "< 0.02 / 0.05", "✓ good"],
        ["classifier, high level", "0.83 ± 0.02", "0.49", "unknown", "< 0.75 / 0.95", "✓ acceptable"],
        ["slope of the angle", "unknown", "unknown", "unknown", "1 ± 0.02 / 0.05", "? unknown"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("measure", "shown"),
    [
        (RESPONSE, "1 ± 0.02 / 0.05"),
        (SEPARATION, "< 0.02 / 0.05"),
        (AUC, "< 0.75 / 0.95"),
        (RESPONSE.model_copy(update={"null": 0.014}), "1 ± 0.034 / 0.064"),
        (SEPARATION.model_copy(update={"null": 0.0564}), "< 0.076 / 0.11"),
        (AUC.model_copy(update={"null": 0.02}), "< 0.77 / 0.97"),
    ],
)
def test_limits_compare_with_the_value_and_are_one_sided_for_an_ideal_of_zero_and_a_half(
    measure, shown
):
    assert limits(a_check("x", measure, "good")) == shown


def test_a_baseline_without_an_error_has_the_digits_of_the_value():
    assert baseline(AUC, with_error=False).text == "0.49"
    assert baseline(RESPONSE).text == "1.001 ± 0.003"
    alone = Measure(name="x", value=1.0, baseline=0.12345)
    assert baseline(alone, with_error=False).text == "0.1235"


def test_all_measures_are_listed_with_error_baseline_and_the_untrained_generator():
    table = measures_table(an_assessment())
    assert table.columns == ("measure", "where", "value", "baseline", "ideal", "widths", "p")
    assert rows(table)[1] == [
        "energy resolution", "10-40 GeV", "1.02 ± 0.06", "1.01 ± 0.05", "1", "0.4", "0.800",
    ]  # fmt: skip
    assert rows(table)[0][-1] == "0.002"
    words = ["measured against requested angle, slope", "all showers"]
    assert rows(table)[-1] == [*words, "unknown", "unknown", "1", "unknown", "unknown"]
    assert "1.0503" in csv_text(table)
    before = an_assessment(RESPONSE.model_copy(update={"value": 2.0}), SLOPE)
    table = measures_table(an_assessment(), before)
    assert table.columns[2:4] == ("untrained", "value")
    assert [row[2] for row in rows(table)] == ["2.000 ± 0.004", *["unknown"] * 4]


def test_the_terminal_shows_the_worst_of_many_bins_and_all_of_few():
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


def fails(title, message):
    return a_verdict("fail", a_check(title, RESPONSE, "fail", message))


TOO_FEW = a_verdict("cannot tell", a_check("tail", WIDTH, "cannot tell"))
TELLS_NOT = "cannot tell: 300 showers are too few for tail; give about 1,200 of each sample"
LIKE_MC = "at the baseline: indistinguishable from b.h5 with 300 showers"
SOME = f"{SHORT}property 0, property 1, property 2 and 2 more"


@pytest.mark.parametrize(
    ("verdict", "shown"),
    [
        (a_verdict("at the baseline", BASELINE), LIKE_MC),
        (TOO_FEW.model_copy(update={"needed": 1200}), TELLS_NOT),
        (a_verdict("good", BASELINE, GOOD), "good: all 2 checks are within the limits for good"),
        (a_verdict("acceptable", BASELINE, SO_SO[0]), f"{SHORT}property 0"),
        (a_verdict("acceptable", *SO_SO), SOME),
        (fails("response", f"{OFF}."), f"fail: {OFF}"),
        (fails("x", "The x is off"), "fail: the x is off"),
        (fails("x", "FPD is 2"), "fail: FPD is 2"),
        (fails("x", "A layer is off"), "fail: a layer is off"),
        (a_failed_verdict(), f"fail: {OFF}; 1 more property fails"),
    ],
)
def test_the_headline_states_the_grade_and_its_reason(verdict, shown):
    assert headline(an_assessment(), verdict) == shown


def test_a_sample_is_described_by_size_cells_and_energies():
    sample = an_assessment().generated
    assert describe(sample) == "a.h5, 1,300 showers of 51x51x25 cells, 10.2 to 99.95 GeV"


def test_many_checks_fit_a_screen_and_the_rest_is_counted():
    checks = [a_check(f"property {n}", AUC, "good") for n in range(30)]
    verdict = a_verdict("good", *checks)
    result = ValidationResult(reference="b.h5", assessment=an_assessment(), verdict=verdict)
    view = result.view()
    assert view.table
    assert len(view.table.rows) == 9
    assert "21 more measures are no worse" in view.notes[-1]
