"""Networks of any image shape, and their width and depth factors."""

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.gan.convolutions import discriminator_convolutions, generator_convolutions
from cloudgan.schema.architecture import read_cells
from cloudgan.schema.config import RunConfig, parse_config
from cloudgan.schema.presets import (
    PROFILES,
    SIZE_KEYS,
    discriminator_table,
    find_preset,
    generator_table,
)

SHAPES = ((45, 16, 9), (30, 30, 30), (25, 25, 25), (51, 51, 25), (12, 12, 12), (3, 4, 2))


def of_shape(name, shape, *periodic):
    return find_preset(name).model_copy(
        update={"image_shape": shape, "periodic_axes": tuple(periodic)}
    )


@pytest.mark.parametrize("text", ["45x16", "45x16x9x2", "45x16x-9", "x16x9", f"{'9' * 5000}x16x9"])
def test_what_is_no_shape_is_refused(text):
    assert read_cells("--image-shape", "45X16x009") == (45, 16, 9)
    with pytest.raises(ConfigError, match="expected the cells in x, y and depth, such as 45x16x9"):
        read_cells("--image-shape", text)


@pytest.mark.parametrize("name", PROFILES)
def test_the_computed_networks_of_a_presets_own_shape_are_its_tables(name):
    preset = find_preset(name)
    assert generator_table(preset) == PROFILES[name].generator
    assert discriminator_table(preset) == PROFILES[name].discriminator
    assert preset.network_name == name


@pytest.mark.parametrize("periodic", [(), ("y",)])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", PROFILES)
def test_a_generator_of_any_shape_ends_with_its_cells(name, shape, periodic):
    try:
        preset = parse_config({"model": of_shape(name, shape, *periodic).model_dump()}, "x").model
    except ConfigError as error:
        assert periodic and shape[1] % 2 and name in {"mini", "smoke"}, error  # noqa: PT017, PT018
        return
    fine = generator_table(preset).subpixel
    *_, last = generator_convolutions(preset)
    assert last.output_cells == tuple(-(-cells // fine) for cells in shape)
    (*_, judged) = discriminator_convolutions(preset)
    assert min(judged.output_cells) >= discriminator_table(preset).pool
    wide = [each.output_cells[1] / each.padded_cells[1] for each in generator_convolutions(preset)]
    assert not periodic or max(wide) <= 1


def test_kernels_and_padding_of_another_shape_are_those_that_its_cells_allow():
    table = generator_table(of_shape("paper", (45, 16, 9)))
    assert (table.grid, table.blocks[0].kernel) == ((8, 3, 5), (6, 5, 6))
    assert table.blocks[1:] == PROFILES["paper"].generator.blocks[1:]
    judged = discriminator_table(of_shape("paper", (45, 16, 9))).blocks
    assert [block.pad for block in judged] == [(0, 0, 0), (0, 2, 2), (0, 0, 2), (0, 0, 0)]
    short = discriminator_table(of_shape("mini", (17, 17, 3))).blocks
    assert [block.kernel[2] for block in short] == [1, 1, 1, 1]


def test_up_sampling_along_a_periodic_axis_divides_its_cells_and_the_network_has_another_name():
    table = generator_table(of_shape("paper", (45, 16, 9), "y"))
    assert (table.grid[1], table.blocks[0].upsample) == (4, (6, 4, 6))
    preset = of_shape("mini", (45, 16, 9), "y")
    assert preset.network_name == "mini (45x16x9 cells, periodic y)"


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
