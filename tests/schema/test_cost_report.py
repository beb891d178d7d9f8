"""A hint in words."""

import pytest
from pydantic import ValidationError

from cloudgan.schema.cost_report import (
    CostReport,
    Durations,
    LineItem,
    Recommendation,
    ReportProvenance,
    Totals,
    UnitCost,
    UnitCosts,
)
from records import price_row
from tests.money.conftest import fee

ROW = price_row()


UNKNOWN = UnitCost(usd=None, basis="b", why_unknown="not measured")


def part(name, usd, **more):
    known = {"price_row": ROW.row_id} if usd is not None else {"why_unknown": "not measured"}
    return LineItem(
        **{"item": "other", "name": name, "seconds": 1, "duration": "program_seconds", "usd": usd}
        | known
        | more
    )


def report(*parts, **more):
    return CostReport(
        **{
            "run": "demo",
            "priced_as": ROW.row_id,
            "basis": "b",
            "durations": Durations(steady_epoch_seconds=1, program_seconds=2, billed_seconds=None),
            "line_items": parts,
            "totals": Totals.of(parts),
            "unit_costs": UnitCosts(
                per_epoch=UNKNOWN, per_million_showers=UNKNOWN, per_accepted_model=UNKNOWN
            ),
            "rows": (ROW,),
            "provenance": ReportProvenance(
                cloudgan="0", today="2026-11-21", measured_on="m", config_hash=None, git_commit=None
            ),
        }
        | more
    )


@pytest.mark.parametrize(
    ("costs", "known", "unknown", "text"),
    [
        ({"a": 1.25}, 1.25, (), "1.25 USD"),
        ({"a": 1.25, "b": 0.5, "c": None}, 1.75, ("c",), "at least 1.75 USD (unknown: c)"),
        ({"a": 12_345.6, "b": None}, 12_345.6, ("b",), "at least 12,346 USD (unknown: b)"),
        ({"a": None, "b": None}, 0, ("a", "b"), "unknown (unknown: a, b)"),
    ],
)
def test_a_total_is_the_sum_of_what_is_known_names_the_rest_and_is_never_zero_for_it(
    costs, known, unknown, text
):
    parts = [part(name, usd) for name, usd in costs.items()]
    assert Totals.of(parts) == Totals(known_usd=known, unknown=unknown)
    assert report(*parts).total() == text


def test_totals_must_match_the_line_items():
    parts = (part("a", 1), part("b", None))
    for wrong in (Totals(known_usd=2, unknown=("b",)), Totals(known_usd=1, unknown=())):
        with pytest.raises(ValidationError, match="but the line items add up to"):
            report(*parts, totals=wrong)


def test_a_line_item_has_a_reason_or_a_price_row():
    for wrong in (
        {"usd": None, "why_unknown": None},
        {"usd": None, "why_unknown": ""},
        {"usd": 1.0, "why_unknown": "but"},
        {"usd": 1.0, "price_row": None},
        {"usd": -1.0},
        {"usd": float("nan")},
    ):
        with pytest.raises(ValidationError):
            part("a", **({"usd": 1.0} | wrong))


@pytest.mark.parametrize(
    ("parts", "more", "said"),
    [
        (1, {"rows": ()}, "names a price row"),
        (2, {}, "the same name"),
        (1, {"currency": "EUR"}, "currency"),
    ],
)
def test_a_report_that_contradicts_itself_is_refused(parts, more, said):
    with pytest.raises(ValidationError, match=said):
        report(*[part("a", 1.0)] * parts, **more)


def test_a_unit_cost_has_a_value_or_a_reason():
    assert UnitCost(usd=0.5, basis="b", unknown=("egress",)).usd == 0.5
    for wrong in ({"usd": None}, {"usd": 1, "why_unknown": "but"}, {"usd": -1}):
        with pytest.raises(ValidationError):
            UnitCost.model_validate({"basis": "b"} | wrong)


def test_fees_are_among_the_rows():
    row = fee("control_plane", 0.1, "GKE standard")
    whole = report(part("cluster", 0.1, price_row=row.row_id), rows=(ROW, row))
    assert CostReport.model_validate_json(whole.model_dump_json()).rows == (ROW, row)


def test_a_recommendation_names_its_known_savings_only():
    silent = Recommendation(title="it waits", evidence="90 % of the time", action="--cache")
    assert silent.describe() == "it waits: 90 % of the time. Try --cache"
    for seconds, usd, saves in (
        (0.0, 1.25, "0 s per epoch and 1.25 USD"),
        (1234.5, 12_345.6, "1,234 s per epoch and 12,346 USD"),
    ):
        known = silent.model_copy(update={"saves_seconds_per_epoch": seconds, "saves_usd": usd})
        assert known.describe() == f"it waits: 90 % of the time; saves {saves}. Try --cache"
