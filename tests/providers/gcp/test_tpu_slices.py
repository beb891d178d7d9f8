"""The table of slices against the price list, and what is said of each."""

from __future__ import annotations

import pytest

from cloudgan.cost.catalog import load_catalog
from cloudgan.providers.gcp.tpu_slices import SLICES, never, notes

ROWS = [row for row in load_catalog().find(provider="gcp") if row.accelerator.startswith("TPU")]


def test_every_slice_that_has_a_price_is_known_with_its_chips():
    assert {row.node_type for row in ROWS} == set(SLICES)
    assert {(row.node_type, row.accelerator_count) for row in ROWS} == {
        (one.name, one.chips) for one in SLICES.values()
    }


def test_what_is_sold_no_more_names_something_that_is():
    old = {one.name: one.instead for one in SLICES.values() if one.instead}
    assert set(old) == {"v2-8", "v2-32", "v3-8", "v3-32"}
    for name, instead in old.items():
        assert not SLICES[instead].instead
        assert SLICES[instead].hosts == 1
        assert any(instead in told and name in told for told in notes(SLICES[name]))


def test_large_slices_are_four_machines_and_name_one_that_is_one():
    for name in ("v2-32", "v3-32", "v4-32"):
        assert SLICES[name].hosts == 4
        assert "`deploy` refuses it" in notes(SLICES[name])[-1]
        assert SLICES[notes(SLICES[name])[-1].rpartition(" ")[2]].hosts == 1
    assert notes(SLICES["v5litepod-8"]) == ()


@pytest.mark.parametrize("name", ["tpu7x-8", "tpu-v7", "TPU7x", "v7x-4", "tpu_v7x", "v7-8"])
def test_the_seventh_generation_is_out_of_reach_in_one_sentence(name):
    told = never(name)
    assert f"cannot train on {name}" in told
    assert ". " not in told


@pytest.mark.parametrize("name", ["v6e-8", "tpu-v6e", "v3-8", "v100", "TPU-v5e", "a2-highgpu-1g"])
def test_no_other_name_is_taken_for_it(name):
    assert never(name) is None
