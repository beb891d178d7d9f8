"""Expected numbers were counted by hand for a prototype of the fast step."""

from __future__ import annotations

from math import prod

import pytest

from cloudgan.gan.arithmetic import discriminator_macs, generator_macs, step_macs
from cloudgan.gan.convolutions import Convolution, convolutions
from cloudgan.schema.architecture import Block
from cloudgan.schema.presets import PROFILES, find_preset, find_profile

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


def test_weights_and_heads_make_the_known_number_of_parameters():
    convolving = sum(one.weights for one in convolutions(PAPER) if one.network == "discriminator")
    batch_norms, heads = 3 * 4 * 8, 2 * (19 * 18 * 7 * 8 + 1)
    assert convolving + batch_norms + heads == 87_402
