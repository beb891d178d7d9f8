from __future__ import annotations

import pytest

from cloudgan.cost.catalog import Catalog, load_catalog
from cloudgan.cost.offers import FAMILIES, offers_for_demo


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def test_three_clouds_and_both_markets_are_there(catalog: Catalog) -> None:
    chosen = offers_for_demo(catalog)
    assert {(row.provider, row.market) for row in chosen} == {
        (cloud, market) for cloud in ("aws", "azure", "gcp") for market in ("on_demand", "spot")
    }
    assert 15 <= len(chosen) <= 30


def test_each_stands_once_with_one_gpu_or_the_smallest_slice(catalog: Catalog) -> None:
    chosen = offers_for_demo(catalog)
    kinds = [(row.provider, row.accelerator.split("-")[0], row.market) for row in chosen]
    assert len([k for k in kinds if k[1] != "TPU"]) == len({k for k in kinds if k[1] != "TPU"})
    assert {row.accelerator_count for row in chosen if "TPU" not in row.accelerator} == {1}
    assert {row.node_type for row in chosen if "TPU" in row.accelerator} == {"v3-8", "v5litepod-1"}


def test_each_is_the_cheapest_of_its_kind_over_the_regions(catalog: Catalog) -> None:
    for row in offers_for_demo(catalog):
        same = catalog.find(provider=row.provider, node_type=row.node_type, market=row.market)
        assert row.usd_per_hour == min(
            other.usd_per_hour for other in same if other.confidence != "C"
        )
        assert row.snapshot == "current"


def test_a_guessed_price_stands_for_nobody(catalog: Catalog) -> None:
    guessed = tuple(
        row.model_copy(update={"confidence": "C"}) if row.accelerator == "T4" else row
        for row in catalog.rows
    )
    chosen = offers_for_demo(Catalog(guessed))
    assert "T4" not in {row.accelerator for row in chosen}
    assert "T4" in FAMILIES
