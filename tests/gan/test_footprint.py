"""Memory of networks counted from tables, against the built networks, and their layers by device."""

from __future__ import annotations

import math
from dataclasses import replace
from math import prod

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.gan.convolutions import discriminator_convolutions, generator_convolutions
from cloudgan.gan.footprint import (
    check_stages,
    device_of,
    footprint,
    kept_for_backward,
    learned,
    place,
    stage_names,
)
from cloudgan.schema.presets import PROFILES, find_preset


def built(preset):
    from cloudgan.gan.networks import build_discriminator, build_generator

    return build_generator(preset), build_discriminator(preset, None)


@pytest.mark.tf
@pytest.mark.parametrize("name", ["mini", "smoke", "fixed25", "smoke, other sizes"])
def test_counted_activations_are_those_of_the_network(name):
    pytest.importorskip("tensorflow")
    name, _, other = name.partition(", ")
    sizes = {"generator_width": 1.5, "generator_depth": 2, "discriminator_depth": 2}
    preset = find_preset(name).model_copy(update=sizes if other else {})
    networks = built(preset)
    counts = [
        sum(math.prod(weight.shape) for weight in network.trainable_weights) for network in networks
    ]
    assert learned(preset) == tuple(counts)
    kept = kept_for_backward(preset, "published")
    for network in networks:
        for number in range(9):
            if f"conv{number}" in {layer.name for layer in network.layers}:
                made = prod(network.get_layer(f"conv{number}").output.shape[1:])
                # At least the output, plus further activations
                assert kept[f"{network.name} {number}"] >= made


@pytest.mark.tf
def test_each_block_of_smoke_keeps_the_tensors_that_its_layers_make():
    pytest.importorskip("tensorflow")
    preset = find_preset("smoke")
    generator, discriminator = built(preset)
    kept = kept_for_backward(preset, "published")

    def made(network, number):
        return prod(network.get_layer(f"conv{number}").output.shape[1:])

    # Convolution, activation, batch norm; the discriminator's also a mask and what it leaves.
    assert kept["generator 0"] == 3 * made(generator, 0)
    assert kept["generator 1"] == made(generator, 1)
    assert kept["discriminator 0"] == 4 * made(discriminator, 0)
    assert kept["discriminator 1"] == 5 * made(discriminator, 1)


def of(name, *, conv_impl="published", precision="float32"):
    return footprint(find_preset(name), conv_impl=conv_impl, precision=precision)


def test_the_published_form_keeps_the_repeated_cells_that_others_never_make():
    published, phases = of("paper"), of("paper", conv_impl="phases")
    assert published.least - phases.least == 4 * 8 * (54 * 54 * 48)


def test_half_precision_halves_activations_and_keeps_weights():
    full = of("mini")
    half, double = of("mini", precision="bfloat16"), of("mini", precision="float64")
    assert (half.least, double.least) == (full.least / 2, full.least * 2)
    assert (half.weights, double.weights) == (full.weights, full.weights * 2)


def test_memory_grows_with_batch_and_replicas():
    one = replace(of("paper"), finishing=0)
    assert one.of_process(4, 1) - one.of_process(3, 1) == one.shower
    assert one.of_process(4, 2) - one.of_process(4, 1) > one.of_replica(4)
    assert one.of_replica(0) == one.weights


def test_finishing_a_generator_counts_where_batches_are_small():
    mini = of("mini")
    assert mini.of_process(1, 1) == mini.of_process(2, 1)
    assert mini.of_process(2000, 1) == replace(mini, finishing=0).of_process(2000, 1)


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
