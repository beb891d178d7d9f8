"""Convolution implementation by flag, checkpoint and hardware; products were counted by hand for a prototype of the step."""

from __future__ import annotations

from math import prod

import pytest

from cloudgan.gan.convolutions import (
    Convolution,
    choose_conv_impl,
    convolutions,
    discriminator_macs,
    generator_macs,
    step_macs,
)
from cloudgan.schema.architecture import Block
from cloudgan.schema.config import parse_config
from cloudgan.schema.presets import PROFILES, find_preset, find_profile


def chosen(found=None, *, device="CPU", precision="float32", conv_impl="auto", preset="paper"):
    training = {"precision": precision, "conv_impl": conv_impl}
    config = parse_config({"model": {"preset": preset}, "training": training}, "a test")
    return choose_conv_impl(config, device, found)


@pytest.fixture(params=[True, False], ids=["with llvmlite", "without"])
def compiles(request, monkeypatch):
    monkeypatch.setattr("cloudgan.gan.convolutions.find_spec", lambda name: request.param or None)
    return request.param


def test_generated_cpu_code_is_the_default_where_it_can_run(compiles):
    assert chosen() == ("fft" if compiles else "phases")
    assert chosen(device="V100") == chosen(precision="bfloat16") == "phases"
    assert chosen(preset="mini") == chosen(preset="smoke") == "phases"
    assert chosen(preset="fixed25") == chosen()


def test_a_saved_choice_is_used_where_it_can_run(compiles):
    assert chosen("published") == "published"
    assert chosen("phases") == "phases"
    assert chosen("fft", preset="smoke") == ("fft" if compiles else "phases")
    assert chosen("fft", device="V100") == "phases"
    assert chosen("of another version") == chosen()


def test_a_flag_overrides_the_saved_choice(compiles):
    assert chosen("phases", conv_impl="published") == "published"
    assert chosen("published", conv_impl="phases") == "phases"
    assert chosen("published", conv_impl="fast") == ("fft" if compiles else "phases")


PAPER = find_preset("paper")


def millions(network, form):
    found = [one for one in convolutions(PAPER) if one.network == network]
    return [round(one.macs(form) / 1e6, 1) for one in found]


def test_each_convolution_of_the_paper_has_the_products_counted_by_hand():
    assert millions("generator", "published") == [1814.5, 437.8, 314.6, 299.0, 122.7, 68.3, 3.1]
    assert millions("generator", "phases") == [94.1, 437.8, 314.6, 299.0, 122.7, 68.3, 3.1]
    assert millions("discriminator", "phases") == [187.3, 1095.9, 385.9, 226.4]


def test_both_networks_of_the_paper_have_the_products_counted_by_hand():
    assert round(generator_macs(PAPER, "published") / 1e6) == 3061
    assert round(generator_macs(PAPER, "phases") / 1e6) == 1341
    assert discriminator_macs(PAPER, "phases") / 1e6 == pytest.approx(1895, abs=1)


def test_a_step_of_the_paper_has_the_products_counted_by_hand():
    published, phases = step_macs(PAPER, "published"), step_macs(PAPER, "phases")
    assert sum(published.values()) / 1e9 == pytest.approx(40.0, abs=0.05)
    assert sum(phases.values()) / 1e9 == pytest.approx(27.97, abs=0.01)
    parts = {name: round(macs / 1e9, 1) for name, macs in phases.items()}
    assert parts == {
        "fake_showers": 1.3,
        "discriminator_real": 5.5,
        "discriminator_fake": 5.5,
        "generator_updates": 15.6,
    }


@pytest.mark.parametrize("name", PROFILES)
def test_the_generator_ends_where_the_image_does(name):
    preset = find_preset(name)
    last = [one for one in convolutions(preset) if one.network == "generator"][-1]
    factor = find_profile(preset.networks).generator.subpixel
    assert last.block.filters == factor**3
    sizes = zip(last.output_cells, preset.image_shape, strict=True)
    assert all(image <= n * factor < image + factor for n, image in sizes)


@pytest.mark.parametrize("name", PROFILES)
def test_phases_never_multiply_more_and_only_an_up_sampling_gains(name):
    for one in convolutions(find_preset(name)):
        published, phases = one.macs("published"), one.macs("phases")
        assert phases < published if prod(one.block.upsample) > 1 else phases == published


def phases_by_hand(out, taps, up, pad):
    """Each coarse cell that any output meets, as many times as phases and coarse taps."""
    coarse = {(j - pad) // up for j in range(out)}
    most = max(len({(phase + t) // up for t in range(taps)}) for phase in range(up))
    return len(coarse) * up * most


@pytest.mark.parametrize("axis", [(12, 6, 2, 2), (7, 5, 2, 1), (20, 8, 3, 3), (49, 6, 6, 0)])
def test_padding_shifts_the_phases(axis):
    out, taps, up, pad = axis
    cells = (out + taps - 1 - 2 * pad) // up
    block = Block(1, (taps, 1, 1), upsample=(up, 1, 1), pad=(pad, 0, 0))
    one = Convolution("generator", "conv0", block, (cells, 1, 1), 1)
    assert one.macs("phases") == phases_by_hand(one.output_cells[0], taps, up, pad)
