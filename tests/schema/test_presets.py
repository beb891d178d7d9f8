"""Presets: the published one is the default, each is named once, nothing else is accepted."""

import pytest
from pydantic import ValidationError

from cloudgan.schema.presets import PROFILES, LossWeights, Preset, find_preset


def test_each_preset_carries_its_own_name():
    for name, profile in PROFILES.items():
        assert (profile.preset.preset, profile.preset.networks) == (name, name)


def test_paper_is_what_the_paper_says():
    paper = find_preset("paper")
    assert paper.image_shape == (51, 51, 25)
    assert paper.latent_size == 256
    assert paper.loss_weights == LossWeights(real_fake=3, energy=0.1, angle=25, ecal_sum=0.1)
    assert paper.optimizer == "rmsprop"
    assert paper.generator_updates == 2
    assert paper.label_flip_fraction == 0.05
    assert paper.label_flips == "drawn"
    assert paper.image_power == 0.85


@pytest.mark.parametrize(
    "wrong",
    [{"imgae_power": 1}, {"image_power": 1.2}, {"latent_size": 1}, {"label_flip_fraction": 0.5}],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValidationError):
        Preset(**wrong)
