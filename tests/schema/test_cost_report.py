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


COST = UnitCost(usd=0.5, basis="b", unknown=("egress",)).model_dump()


@pytest.mark.parametrize(
    ("make", "wrong", "said"),
    [
        *(
            (lambda **more: report(part("a", 1), part("b", None), **more), {"totals": totals}, said)
            for totals, said in (
                (Totals(known_usd=2, unknown=("b",)), "but the line items add up to"),
                (Totals(known_usd=1, unknown=()), "but the line items add up to"),
            )
        ),
        (lambda **more: report(part("a", 1.0), **more), {"rows": ()}, "names a price row"),
        (lambda **_: report(part("a", 1.0), part("a", 1.0)), {}, "the same name"),
        (lambda **more: report(part("a", 1.0), **more), {"currency": "EUR"}, "currency"),
        *(
            (lambda **more: part("a", **{"usd": 1.0} | more), wrong, "usd|a cost and no price row")
            for wrong in (
                {"usd": None, "why_unknown": None},
                {"usd": None, "why_unknown": ""},
                {"why_unknown": "but"},
                {"price_row": None},
                {"usd": -1.0},
                {"usd": float("nan")},
            )
        ),
        *(
            (lambda **more: UnitCost.model_validate(COST | more), wrong, "usd")
            for wrong in ({"usd": None}, {"why_unknown": "but"}, {"usd": -1})
        ),
    ],
)
def test_a_report_that_contradicts_itself_is_refused(make, wrong, said):
    with pytest.raises(ValidationError, match=said):
        make(**wrong)


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
