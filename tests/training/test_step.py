"""The training step on one device with narrow networks."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from cloudgan.schema.losses import LOSS_TERMS, PASSES, loss_columns
from cloudgan.schema.presets import LossWeights, find_preset
from training.narrow_gan import ONCE, SMOKE, batch, build

pytestmark = pytest.mark.tf
SHAPED = SMOKE.model_copy(
    update={"loss_weights": LossWeights(longitudinal=20.0, shape=5.0), "noise_channels": 1}
)


def numbers(network):
    return [weight.numpy() for weight in network.weights]


def test_a_step_changes_every_weight_that_can_learn():
    gan, step = build()
    before = [w.numpy() for m in (gan.generator, gan.discriminator) for w in m.trainable_weights]
    step(batch())
    after = [w.numpy() for m in (gan.generator, gan.discriminator) for w in m.trainable_weights]
    assert all(np.any(a != b) for a, b in zip(before, after, strict=True))


def test_the_average_follows_at_its_own_pace_and_takes_statistics_as_they_are():
    gan, step = build()
    before = numbers(gan.ema_generator)
    step(batch())
    share = 1 - SMOKE.ema_decay
    pairs = zip(before, gan.generator.weights, gan.ema_generator.weights, strict=True)
    for old, raw, ema_generator in pairs:
        wanted = old + (raw.numpy() - old) * share if raw.trainable else raw.numpy()
        np.testing.assert_allclose(ema_generator.numpy(), wanted, rtol=1e-4, atol=1e-7)


@pytest.fixture(scope="module", params=["smoke", "fixed25"])
def compiled(request):
    """A preset, its networks with their first weights, and its compiled step."""
    preset = find_preset(request.param).model_copy(update={"generator_updates": 1})
    gan, step = build(preset)
    weights = [*gan.generator.weights, *gan.discriminator.weights]
    return preset, weights, [one.numpy() for one in weights], tf.function(step, autograph=False)


@pytest.mark.parametrize(
    "hard", [{"scale": 0.0}, {"energy": 0.0}, {"scale": 0.0, "energy": 0.0}, {"scale": 1e-12}]
)
def test_empty_showers_and_zero_energy_give_finite_losses_and_weights(compiled, hard):
    preset, weights, first, step = compiled
    for weight, value in zip(weights, first, strict=True):
        weight.assign(value)
    assert np.isfinite(step(batch(preset, **hard)).numpy()).all()
    assert all(np.isfinite(weight.numpy()).all() for weight in weights)


def test_a_generator_that_makes_nothing_still_learns_without_nan():
    gan, step = build()
    gan.generator.get_layer("output").calibration.assign(0.0)
    assert np.isfinite(step(batch()).numpy()).all()
    assert all(np.isfinite(weights).all() for weights in numbers(gan.generator))


@pytest.mark.parametrize("preset", [SMOKE, SHAPED], ids=["plain", "with a shape score"])
def test_testing_changes_no_weight_and_has_the_shape_of_a_step(preset):
    gan, step = build(preset)
    before = numbers(gan.generator) + numbers(gan.discriminator)
    losses = step.evaluate(batch()).numpy()
    assert losses.shape == (len(PASSES), len(loss_columns()))
    assert bool(losses[-1, loss_columns().index("shape")] > 0) is (preset is SHAPED)
    for old, new in zip(before, numbers(gan.generator) + numbers(gan.discriminator), strict=True):
        np.testing.assert_array_equal(old, new)


def flips_seen(step, steps=40):
    seen = []
    for number in range(steps):
        at = tf.constant(number, tf.int64)
        with step._rng.at(at, tf.zeros((), tf.int64), 0):
            seen.append(step._flipped(1.0, batch()).numpy().ravel())
    return np.array(seen)


def test_label_flips_are_drawn_at_each_step_and_frozen_only_on_request():
    often = SMOKE.model_copy(update={"label_flip_fraction": 0.3})
    drawn = flips_seen(build(often)[1])
    assert set(np.unique(drawn)) == {0.0, 1.0}
    assert len(np.unique(drawn, axis=0)) > 1
    assert drawn.mean() == pytest.approx(0.7, abs=0.15)
    frozen = flips_seen(build(often.model_copy(update={"label_flips": "frozen"}))[1])
    assert len(np.unique(frozen, axis=0)) == 1


def test_a_preset_without_extras_reports_no_longitudinal_and_no_shape_term():
    plain = SMOKE.model_copy(update={"loss_weights": LossWeights(), "ema_decay": 0.0})
    gan, step = build(plain)
    losses = step(batch()).numpy()
    assert gan.ema_generator is None
    extras = [loss_columns().index(name) for name in ("longitudinal", "shape")]
    assert np.all(losses[:, extras] == 0)


def test_the_generator_alone_pays_a_shape_term():
    losses = build(SHAPED)[1](batch()).numpy()
    real, faked, generator = losses[:, loss_columns().index("shape")]
    assert (real, faked) == (0, 0)
    assert generator > 0
    terms = dict(zip(loss_columns(), losses[-1], strict=True))
    weighed = sum(SHAPED.loss_weights[name] * terms[name] for name in LOSS_TERMS)
    assert terms["total"] == pytest.approx(weighed, rel=1e-5)


def test_the_shape_term_alone_teaches_a_generator():
    nothing_else = LossWeights(real_fake=0.0, energy=0.0, angle=0.0, ecal_sum=0.0, shape=5.0)
    changes = {"loss_weights": nothing_else, "generator_updates": 1}
    preset = SHAPED.model_copy(update=changes)
    _, step = build(preset, rate=3e-3)
    run = tf.function(step, autograph=False)
    found = [run(batch(preset, step=number)).numpy()[-1, -1] for number in range(25)]
    assert np.mean(found[-5:]) < 0.8 * np.mean(found[:3])


def test_the_step_compiles_with_static_shapes_as_a_tpu_needs_it(monkeypatch):
    """XLA on CPU stands in for a TPU: no dynamic shape, no Python side effect, a loop of steps."""
    # LLVM's optimizations take a third of the time; XLA reads this when it compiles first.
    unoptimized = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    monkeypatch.setenv("XLA_FLAGS", unoptimized)
    gan, step = build(ONCE)

    @tf.function(jit_compile=True)
    def loop(image, energy, angle, ecal):
        losses = tf.zeros((len(PASSES), len(loss_columns())))
        for number in tf.range(2):
            at = tf.reshape(tf.cast(number, tf.int64), (1,))
            losses += step(
                {
                    "image": image,
                    "energy": energy,
                    "angle": angle,
                    "ecal": ecal,
                    "step": at,
                    "first_row": tf.zeros_like(at),
                }
            )
        return losses

    one = batch(ONCE)
    losses = loop(*(one[name] for name in ("image", "energy", "angle", "ecal")))
    assert np.isfinite(losses.numpy()).all()
    assert int(gan.generator_optimizer.iterations.numpy()) == 2
