"""Width and depth factors of the networks."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.schema.config import RunConfig, parse_config
from cloudgan.schema.network_size import discriminator_table, generator_table
from cloudgan.schema.presets import PROFILES, SIZE_KEYS, find_preset


@pytest.mark.parametrize("name", PROFILES)
def test_factors_of_one_are_the_networks_of_the_preset(name):
    preset = find_preset(name)
    assert generator_table(preset) == PROFILES[name].generator
    assert discriminator_table(preset) == PROFILES[name].discriminator
    assert preset.network_name == name


def test_a_width_scales_all_filters_but_those_that_make_the_image():
    preset = find_preset("mini").model_copy(update={"generator_width": 1.5})
    table = generator_table(preset)
    assert (table.channels, [block.filters for block in table.blocks]) == (12, [12, 8])
    assert discriminator_table(preset) == PROFILES["mini"].discriminator
    thin = find_preset("smoke").model_copy(update={"discriminator_width": 0.125})
    assert [block.filters for block in discriminator_table(thin).blocks] == [1, 1, 1]


def test_a_depth_repeats_hidden_blocks_at_their_size():
    preset = find_preset("paper").model_copy(update={"generator_depth": 2})
    blocks, usual = generator_table(preset).blocks, PROFILES["paper"].generator.blocks
    assert blocks[0:-1:2] == usual[:-1]
    assert blocks[-1] == usual[-1]
    assert {(block.kernel, block.padding) for block in blocks[1:-1:2]} == {((3, 3, 3), "same")}


def test_factors_are_in_the_document_and_the_name_only_where_they_are_not_one():
    changed = parse_config({"model": {"preset": "mini", "generator_width": 2}}, "x")
    assert changed.model.network_name == "mini (generator width 2)"
    assert changed.model_dump()["model"]["generator_width"] == 2
    assert parse_config(changed.model_dump(mode="json"), "x") == changed
    same = parse_config({"model": {"generator_width": 1.0}}, "x")
    assert same.config_hash() == RunConfig().config_hash()
    assert not set(SIZE_KEYS) & set(RunConfig().model_dump()["model"])


@pytest.mark.parametrize(
    "given", [{"generator_width": 0.1}, {"discriminator_width": 9}, {"generator_depth": 1.5}]
)
def test_factors_out_of_range_are_refused(given):
    with pytest.raises(ConfigError, match=f"model.{next(iter(given))}"):
        parse_config({"model": given}, "x")
