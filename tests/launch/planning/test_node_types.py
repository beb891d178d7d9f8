"""Node types that clouds no longer rent."""

from __future__ import annotations

import datetime as dt

import pytest

from cloudgan.cost.prices.catalog import load_catalog
from cloudgan.launch.planning.node_types import DISCONTINUED, discontinued


@pytest.mark.parametrize(
    ("node_type", "since"),
    [
        ("Standard_NC6s_v3", "2025-09-30"),
        ("Standard_NC24s_v3", "2025-09-30"),
        ("Standard_NC24rs_v3", "2025-03-31"),
    ],
)
def test_the_papers_machines_of_azure_are_gone(node_type, since):
    found = discontinued("azure", node_type)
    assert found.since == since
    assert f"is discontinued since {since}; the nearest that is sold: " in found.message


@pytest.mark.parametrize(
    ("provider", "node_type"),
    [
        ("azure", "Standard_NC24ads_A100_v4"),
        ("azure", "Standard_NC4as_T4_v3"),
        ("gcp", "n1-standard-8+1xV100"),
        ("gcp", "v2-8"),
        ("aws", "p3.2xlarge"),
    ],
)
def test_what_is_sold_is_not_among_them(provider, node_type):
    assert discontinued(provider, node_type) is None


def test_each_says_who_says_so_and_stands_in_the_price_list():
    """Price lists keep prices of discontinued machines, so they must be listed here."""
    rows = load_catalog().find()
    for one in DISCONTINUED:
        assert one.source
        assert one.since is None or dt.date.fromisoformat(one.since) < dt.date(2026, 11, 21)
        assert any(discontinued(row.provider, row.node_type) == one for row in rows)
