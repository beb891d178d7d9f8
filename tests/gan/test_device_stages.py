"""Which layers are on which device, counted before anything is built."""

from math import prod

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.gan.convolutions import discriminator_convolutions, generator_convolutions
from cloudgan.gan.device_stages import check_stages, device_of, place, stage_names
from cloudgan.gan.footprint import learned
from cloudgan.schema.presets import PROFILES, find_preset


@pytest.mark.parametrize("name", PROFILES)
def test_each_weight_is_on_one_device_and_each_boundary_carries_the_output_before_it(name):
    preset = find_preset(name)
    stages = (stage_names(preset)[0], stage_names(preset)[-1])
    rows = place(preset, stages, slots=2)
    for network, total in zip(("generator", "discriminator"), learned(preset), strict=True):
        of_network = [row for row in rows if row["network"] == network]
        assert sum(row["weight_bytes"] for row in of_network) == 4 * 4 * total
        assert of_network[0]["bytes_in_per_shower"] == 0
        assert of_network[1]["layers"][0] == "conv1"
    first = generator_convolutions(preset)[0]
    assert rows[1]["bytes_in_per_shower"] == 4 * prod(first.output_cells) * first.block.filters


def test_a_network_without_the_layer_stays_on_the_devices_before_it():
    preset = find_preset("paper")
    rows = place(preset, ("conv5",), slots=1)
    assert [(row["network"], row["device"]) for row in rows] == [
        ("generator", 0),
        ("generator", 1),
        ("discriminator", 0),
    ]
    assert len(rows[2]["layers"]) == len(discriminator_convolutions(preset))


def test_layers_from_a_stage_on_are_on_the_next_device():
    assert [device_of(number, ("conv2", "conv4")) for number in range(6)] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        (("conv33",), "no layer 'conv33'. Did you mean 'conv3'?"),
        (("start",), "Valid: conv1, conv2, conv3"),
        (("conv3", "conv1"), "--stages=conv1,conv3"),
        (("conv1", "conv1"), "each layer once"),
    ],
)
def test_an_unknown_or_misplaced_stage_is_refused(stages, expected):
    with pytest.raises(ConfigError) as refused:
        check_stages(stages, find_preset("mini"))
    assert expected in str(refused.value)
