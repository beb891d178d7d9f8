"""Showers in blocks are those of the plain network."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tensorflow")

import tensorflow as tf

from cloudgan.core.progress import Silent
from cloudgan.data.showers import LEAST_CELL_GEV
from cloudgan.gan.networks import build_generator, latent_of
from cloudgan.schema.presets import find_preset
from cloudgan.training.inference import Conditions, ShowerGenerator
from cloudgan.training.rng import Call, Rng
from exports.example_weights import example_weights

pytestmark = pytest.mark.tf


def conditions(count):
    random = np.random.default_rng(2)
    energy, angle = random.uniform(20, 80, count), random.uniform(1.2, 1.9, count)
    return Conditions(energy.astype(np.float32), angle.astype(np.float32))


def plain_cells(generator, asked, seed):
    """The published order: the whole batch at once, powered cells, then the root in NumPy."""
    preset = generator.preset
    network = build_generator(preset)
    network.set_weights(generator.network.get_weights())
    rng = Rng(seed)
    with rng.at(tf.zeros((), tf.int64), tf.zeros((), tf.int64), Call.GENERATE):
        unit, angle = asked.energy_gev[:, None] / 100, asked.angle_rad[:, None]
        latent = latent_of(preset, rng.normal, unit, angle)
    image = network(latent, training=False).numpy()[..., 0].astype(np.float64)
    cells = image ** (1 / preset.image_power) / preset.image_scale
    return np.where(cells < LEAST_CELL_GEV, 0, cells)


@pytest.fixture(scope="module", params=["mini", "smoke"])
def generator(request):
    """mini has cell marginals, smoke a power of the cells."""
    preset = find_preset(request.param)
    made = ShowerGenerator(preset, block=4)
    made.set_weights(list(example_weights(preset).values()))
    return made


def test_cells_in_blocks_are_those_of_the_plain_network(generator):
    asked = conditions(10)  # the last block is shorter than the others
    blocks = list(generator.showers(asked, seed=3))
    assert [len(block) for block in blocks] == [4, 4, 2]
    found = np.concatenate([block.ecal_gev for block in blocks])
    expected = plain_cells(generator, asked, 3)
    assert expected.max() > 1e-3
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-6 * expected.max())


def test_parts_of_the_conditions_do_not_change_the_showers(generator):
    asked = conditions(6)
    parts = [Conditions(asked.energy_gev[some], asked.angle_rad[some])
             for some in (slice(0, 5), slice(5, 6))]  # fmt: skip
    whole = np.concatenate([block.ecal_gev for block in generator.showers(asked, seed=3)])
    streamed = generator.streamed(parts, seed=3, progress=Silent())
    found = np.concatenate([block.ecal_gev for block in streamed])
    np.testing.assert_allclose(found, whole, rtol=1e-4, atol=1e-6 * whole.max())


def test_memory_does_not_grow_with_the_number_of_showers():
    generator = ShowerGenerator(find_preset("smoke"))
    parts = (conditions(1024) for _ in range(14))
    blocks = generator.streamed(parts, seed=1, progress=Silent())
    used = [resident_bytes() for number, _ in enumerate(blocks) if number in (15, 55)]
    further = 40 * 256 * 9 * 9 * 25 * 4  # bytes of the showers between the two
    assert used[1] - used[0] < further / 3


def resident_bytes():
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()
