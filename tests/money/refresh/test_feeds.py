"""Clouds are refreshed independently; a failure keeps the previous prices."""

import pytest

from cloudgan.core.errors import CloudganError, CredentialsError
from cloudgan.money.catalog import load_catalog, refreshed_file, shipped_catalog
from cloudgan.money.refresh.feeds import PriceFeed, Quote, RefreshResult, refresh

OFFER = "aws/g5.xlarge/us-east-1"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CLOUDGAN_DATA", str(tmp_path))
    return tmp_path / "prices"


def quote(usd, market="on_demand", date="2026-11-21"):
    node = shipped_catalog().row(f"{OFFER}/on_demand")
    return Quote(node, "us-east-1", market, usd, "USD", "AWS, now", date)


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
    refresh("aws", [part(quote(3.0, date="2026-11-01"), quote(0.5, "spot", "2026-11-01"))], folder)
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
