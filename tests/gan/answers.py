"""Results of layers for fixed inputs under the active Keras backend; see `test_on_jax.py`.

Run with a folder to write to and policies; imported, it answers under the backend of the tests.
"""

from __future__ import annotations

import json
import sys

import keras
import numpy as np
from keras import ops

from cloudgan.gan.layers import PUBLISHED, PhaseStages, Stage
from cloudgan.gan.networks import build_discriminator, build_generator
from cloudgan.schema.architecture import Block
from cloudgan.schema.presets import find_preset

SMOKE = find_preset("smoke").model_copy(update={"dropout": 0.0})
NAMED = {"start", "conv", "norm", "output", "real", "energy", "measure"}
BLOCK = Block(8, (6, 6, 8), upsample=(6, 6, 6))  # that of the paper preset


def answers(policy):
    """Returns arrays by name, including the dtypes of all layers as JSON."""
    keras.config.set_dtype_policy(policy)
    rng = np.random.default_rng(0)
    generator, discriminator = build_generator(SMOKE), build_discriminator(SMOKE, None)
    for network in (generator, discriminator):
        network.set_weights([numbers(rng, weight) for weight in network.weights])
    image = rng.gamma(0.2, 1.0, (2, *SMOKE.image_shape, 1)).astype(np.float32)
    latent = rng.normal(0.5, 0.1, (2, SMOKE.latent_size)).astype(np.float32)
    real, energy, angle, total = discriminator(image, training=False)
    found = {"real": real, "energy": energy, "angle": angle, "total": total}
    found["image"] = generator(latent, training=False)
    norm = generator.get_layer("norm0")
    # 7 bits hold these numbers, but neither their sum nor the sum of their squares.
    values = rng.integers(96, 128, (4, 6, 6, 6, norm.gamma.shape[0])).astype(np.float32)
    before = norm.moving_mean + 0, norm.moving_variance + 0
    norm(ops.cast(values, norm.compute_dtype), training=True)
    found |= {"values": values, "mean": norm.moving_mean, "variance": norm.moving_variance}
    found |= {"mean before": before[0], "variance before": before[1]}
    found |= phases(rng)
    arrays = {name: np.asarray(ops.cast(value, "float32")) for name, value in found.items()}
    return arrays | {"types": np.array(json.dumps(types(generator) | types(discriminator)))}


def numbers(rng, weight):
    """Values of both signs, except as input of a root."""
    drawn = rng.normal(0, 0.1, weight.shape)
    return np.abs(drawn) if "variance" in weight.name else drawn


def phases(rng):
    """Value and gradient of an up-sampling convolution, in both implementations."""
    x = rng.normal(0, 1, (2, 3, 3, 2, 4)).astype(np.float32)
    weights = [rng.normal(0, 0.1, (*BLOCK.kernel, 4, 8)), rng.normal(0, 0.1, 8)]
    found = {}
    stage = Stage(BLOCK, 0, "zeros", leak=1.0, momentum=0.9, epsilon=1e-6)
    for form, stages in {"published": PUBLISHED, "phases": PhaseStages()}.items():
        start = keras.Input(x.shape[1:])
        model = keras.Model(start, stages.convolution(stage, start))
        model.set_weights(weights)
        found[form] = model(x)
        pull = np.cos(np.arange(np.prod(found[form].shape))).reshape(found[form].shape)
        found[f"{form} gradient"] = gradient(model, x, pull.astype(np.float32))
    return found


def gradient(model, x, pull):
    """Gradient of the kernel."""

    def pulled(result):
        return ops.sum(ops.cast(result, "float32") * pull)

    if keras.backend.backend() == "jax":
        import jax

        values = [weight.value for weight in model.trainable_variables]
        return jax.grad(lambda given: pulled(model.stateless_call(given, [], x)[0]))(values)[0]
    import tensorflow as tf

    with tf.GradientTape() as tape:
        loss = pulled(model(x))
    return tape.gradient(loss, model.trainable_variables)[0]


def types(network):
    """Compute dtype and weight dtypes by layer name."""
    return {
        f"{network.name} {layer.name}": [
            layer.compute_dtype,
            *sorted({str(weight.dtype) for weight in layer.weights}),
        ]
        for layer in network.layers
        if layer.name.rstrip("0123456789") in NAMED
    }


if __name__ == "__main__":
    for requested in sys.argv[2:]:
        np.savez(f"{sys.argv[1]}/{requested}.npz", **answers(requested))
