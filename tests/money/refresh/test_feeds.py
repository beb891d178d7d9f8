"""Quotes are validated; clouds are refreshed independently, and a failure keeps the previous prices."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudgan.core.errors import CloudganError, CredentialsError
from cloudgan.money.catalog import load_catalog, refreshed_file, shipped_catalog
from cloudgan.money.refresh.feeds import (
    PriceFeed,
    Quote,
    RefreshResult,
    parse_price,
    refresh,
    validate,
)

OFFER = "aws/g5.12xlarge/us-east-1"
NODE = shipped_catalog().row(f"{OFFER}/on_demand")  # 4 GPUs


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CLOUDGAN_DATA", str(tmp_path))
    return tmp_path / "prices"


def quote(usd=12.0, market="on_demand", **changes):
    base = Quote(NODE, "us-east-1", market, usd, "USD", "a list", "2026-11-21")
    return base._replace(**changes)


def part(*quotes, name="list"):
    return PriceFeed(name, lambda: quotes)


def broken(error, *quotes):
    def read():
        yield from quotes
        raise error

    return PriceFeed("broken", read)


def test_prices_are_written_with_their_day_and_refused_ones_are_counted_with_their_reason(folder):
    outcome = refresh("aws", [part(quote(3.0)), part(quote(0.5, "spot"))], folder)
    assert outcome == RefreshResult(source="aws", state="refreshed", rows=2)
    row = load_catalog().row(f"{OFFER}/spot")
    assert (row.usd_per_hour, row.date) == (0.5, "2026-11-21")
    outcome = refresh("aws", [part(quote(3.0)), part(quote(-1, "spot"))], folder)
    assert (outcome.state, outcome.rows) == ("refreshed", 1)
    assert [one.offer for one in outcome.rejected] == [f"{OFFER}/spot"]
    assert load_catalog().row(f"{OFFER}/spot") == row


@pytest.mark.parametrize(
    "parts",
    [
        lambda: [part(quote(9.0)), broken(CloudganError("no answer"))],
        lambda: [broken(CloudganError("is incomplete"), quote(9.0))],
        lambda: [part(quote(-1))],
        lambda: [part(quote(9.0, date="11/21/2026"))],
        lambda: [part()],
        lambda: [broken(CredentialsError("no key"))],
    ],
)
def test_a_refresh_that_fails_or_is_locked_leaves_the_old(folder, parts):
    refresh("aws", [part(quote(3.0))], folder)
    before = refreshed_file(folder, "aws").read_bytes()
    outcome = refresh("aws", parts(), folder)
    assert outcome.state in {"failed", "skipped"}
    assert outcome.notes
    assert refreshed_file(folder, "aws").read_bytes() == before


def test_a_missing_key_skips_only_its_part(folder):
    outcome = refresh("aws", [part(quote(3.0)), broken(CredentialsError("set THE_KEY"))], folder)
    assert (outcome.state, outcome.rows) == ("refreshed", 1)
    assert outcome.notes == ("broken: skipped, set THE_KEY",)


def test_what_an_older_refresh_knew_stays_with_its_own_day(folder):
    refresh(
        "aws", [part(quote(3.0, date="2026-11-01"), quote(0.5, "spot", date="2026-11-01"))], folder
    )
    refresh("aws", [part(quote(2.9))], folder)
    full, spot = (load_catalog().row(f"{OFFER}/{market}") for market in ("on_demand", "spot"))
    assert (full.usd_per_hour, full.date) == (2.9, "2026-11-21")
    assert (spot.usd_per_hour, spot.date) == (0.5, "2026-11-01")


def test_a_damaged_file_of_another_cloud_costs_no_price(folder):
    refresh("aws", [part(quote(3.0), quote(0.5, "spot"))], folder)
    refreshed_file(folder, "azure").write_text("nonsense")
    refresh("aws", [part(quote(2.9))], folder)
    refreshed_file(folder, "azure").unlink()
    assert load_catalog().row(f"{OFFER}/spot").usd_per_hour == 0.5


def test_an_invalid_file_is_replaced(folder):
    folder.mkdir()
    refreshed_file(folder, "aws").write_text("nonsense")
    assert refresh("aws", [part(quote(3.0))], folder).state == "refreshed"
    assert load_catalog().row(f"{OFFER}/on_demand").usd_per_hour == 3.0


def test_a_folder_that_cannot_be_written_fails_in_words(tmp_path):
    (tmp_path / "file").touch()
    outcome = refresh("aws", [part(quote(3.0))], tmp_path / "file")
    assert outcome.state == "failed"
    assert "cannot be written" in outcome.notes[0]


def test_a_sound_price_becomes_a_row_of_its_node():
    rows, refused = validate([quote(), quote(3.7, "spot", region="eu-west-1")])
    assert refused == ()
    assert [row.row_id for row in rows] == [
        "node/aws/g5.12xlarge/eu-west-1/spot/current",
        "node/aws/g5.12xlarge/us-east-1/on_demand/current",
    ]
    row = rows[0]
    assert (row.usd_per_hour, row.source, row.date) == (3.7, "a list", "2026-11-21")
    assert (row.accelerator, row.accelerator_count, row.note) == ("A10G", 4, "")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"usd_per_hour": -1.0}, "is not a valid price"),
        ({"usd_per_hour": 0.0}, "is not a valid price"),
        ({"usd_per_hour": 0.00001}, "is not a valid price"),
        ({"usd_per_hour": math.nan}, "is not a valid price"),
        ({"usd_per_hour": math.inf}, "is not a valid price"),
        ({"usd_per_hour": 700.0}, "implausibly high for 4 accelerators"),
        ({"unit": "month"}, "per month, not per hour"),
        ({"currency": "EUR"}, "in EUR, not in USD"),
        ({"currency": ""}, "in no currency"),
    ],
)
def test_an_invalid_price_is_rejected_with_its_reason(wrong, why):
    rows, (refusal,) = validate([quote(**wrong), quote(region="us-west-2")])
    assert [row.region for row in rows] == ["us-west-2"]
    assert refusal.offer == "aws/g5.12xlarge/us-east-1/on_demand"
    assert why in refusal.why


def test_two_different_prices_of_one_offer_are_rejected():
    rows, (refusal,) = validate([quote(12), quote(13)])
    assert rows == ()
    assert "two prices: 13 and 12 USD/h" in refusal.why
    rows, refused = validate([quote(12), quote(12)])
    assert (len(rows), refused) == (1, ())


def test_spot_above_on_demand_rejects_both():
    rows, refused = validate([quote(12), quote(13, "spot")])
    assert rows == ()
    assert {one.offer.rpartition("/")[2] for one in refused} == {"spot", "on_demand"}


@pytest.mark.parametrize(("spot", "why"), [(12, "costs as much as"), (1.2, "exactly a tenth")])
def test_a_spot_price_without_capacity_is_rejected_alone(spot, why):
    rows, (refusal,) = validate([quote(12), quote(spot, "spot")])
    assert [row.market for row in rows] == ["on_demand"]
    assert why in refusal.why
    azure = NODE.model_copy(update={"provider": "azure"})  # which sells at up to 90 % less
    rows, _ = validate([quote(12, node=azure), quote(spot, "spot", node=azure)])
    assert len(rows) == (2 if spot < 12 else 1)


@pytest.mark.parametrize("message", [None, True, [], {}, "", "free", "1,5"])
def test_what_is_no_number_is_no_price(message):
    assert math.isnan(parse_price(message))
    assert parse_price("0.5") == parse_price(0.5) == 0.5


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(), st.sampled_from(["on_demand", "spot"]), st.sampled_from(["a", "b", "c"])
        )
    )
)
def test_validated_rows_are_always_consistent(said):
    rows, refused = validate(quote(usd, market, region=region) for usd, market, region in said)
    assert len({row.row_id for row in rows}) == len(rows) <= len(said)
    assert all(0.001 <= row.usd_per_hour < 201 for row in rows)
    by_id = {row.row_id: row for row in rows}
    for row in rows:
        spot = by_id.get(row.row_id.replace("/on_demand/", "/spot/"), row)
        assert spot is row or row.usd_per_hour > spot.usd_per_hour
    assert bool(rows or refused) == bool(said)
