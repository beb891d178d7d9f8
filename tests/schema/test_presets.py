"""Presets: the published one is the default, each is named once, nothing else is accepted."""

from cloudgan.schema.presets import PROFILES, LossWeights, find_preset


def test_each_preset_carries_its_own_name():
    for name, profile in PROFILES.items():
        assert (profile.preset.preset, profile.preset.networks) == (name, name)


def test_paper_is_what_the_paper_says_without_any_of_our_additions():
    published = {
        "image_shape": (51, 51, 25),
        "latent_size": 256,
        "loss_weights": LossWeights(
            real_fake=3, energy=0.1, angle=25, ecal_sum=0.1, longitudinal=0
        ),
        "optimizer": "rmsprop",
        "generator_updates": 2,
        "label_flip_fraction": 0.05,
        "label_flips": "drawn",
        "image_power": 0.85,
        "batch_norm_momentum": 0.99,
        "output_activation": "relu",
        "energy_scaled_output": False,
        "calibrated_output": False,
        "ema_decay": 0,
    }
    paper = find_preset("paper")
    assert {key: getattr(paper, key) for key in published} == published
