"""The price catalog as text and as JSON."""

import datetime as dt
import re

from cloudgan.core.clock import utc_today
from cloudgan.money.catalog import shipped_catalog, write_refreshed
from cloudgan.money.fees import load_fees
from cloudgan.money.prices import prices

HEADS = ["node", "USD/h", "market", "where", "days", "old", "grade"]


def test_every_price_is_shown_with_its_age(cloudgan_here):
    said = cloudgan_here("prices", "--accelerator=a10g", "--provider=aws").stdout.splitlines()
    rows = [line for line in said if line.startswith("g5.") and "AWS" in line]
    assert len(rows) == len(shipped_catalog().find(provider="aws", accelerator="a10g"))
    assert all(re.search(r" (unknown|≤?\d+) +[ABC] *$", line) for line in rows)
    assert max(map(len, rows)) <= 80
    assert any(line.split() == HEADS for line in said)
    assert any("C not confirmed" in line for line in said)
    assert "cloudgan prices refresh" in said[-1]


def test_without_a_filter_there_is_a_row_per_accelerator_with_its_age(cloudgan_here):
    said = cloudgan_here("prices").stdout.splitlines()
    (l4,) = (line.split() for line in said if line.startswith("L4 "))
    rows = [row for row in shipped_catalog().find() if row.accelerator == "L4"]
    each = [row.usd_per_hour / row.accelerator_count for row in rows if row.market == "spot"]
    assert l4[1] == f"{min(each):.2f}"
    assert l4[3:9] == ["1,", "2,", "4,", "8", "AWS,", "GCP"]
    assert int(l4[-1]) > 0
    assert max(map(len, said)) <= 80


def test_json_has_all_columns_and_the_age(cloudgan_here):
    said = cloudgan_here("prices", "show", "--json").json()
    assert len(said["rows"]) == len(shipped_catalog().find())
    assert len(said["fees"]) == len(load_fees().rows)
    for row in (*said["rows"], *said["fees"]):
        assert row["age"]
        assert (row["age_days"] is None) is (row["date"] == "unknown")
        assert row["stale"] or row["age_days"] <= 90


def test_fees_are_shown_for_their_region(cloudgan_here):
    said = "\n".join(prices(provider="aws", region="us-west-2").view().basis)
    assert "EKS extended support, any" in said
    assert "to the internet, us-west-2" in said
    assert "us-east-1" not in said
    assert "GKE" not in said
    only = cloudgan_here("prices", "--market=spot", "--json").json()
    assert {row["market"] for row in only["rows"]} == {"spot"}
    assert only["fees"] == []


def test_refreshed_prices_are_shown_with_their_source(cloudgan_here, tmp_path, monkeypatch):
    monkeypatch.setenv("CLOUDGAN_DATA", str(tmp_path))
    row = shipped_catalog().row("aws/g5.xlarge/us-east-1/spot")
    fresh = row.model_copy(update={"usd_per_hour": 0.5, "date": "2026-11-20", "source": "AWS"})
    write_refreshed(tmp_path / "prices", "aws", [fresh])
    said = cloudgan_here("prices", "--provider=aws", "--region=us-east-1").stdout
    (line,) = (one for one in said.splitlines() if "g5.xlarge" in one and "spot" in one)
    assert " 0.5000 " in line
    assert int(line.split()[-2].lstrip("≤")) == (utc_today() - dt.date(2026, 11, 20)).days
