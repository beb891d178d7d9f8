"""The loss functions: one for each weight of `cloudgan.schema.losses.LossWeights`, in `keras.ops`.

A loss function takes `LossInputs` and returns this replica's share of the loss, a scalar: summed
over the replicas it is the loss of the global batch. All are finite, with finite gradients, for
empty showers and zero energies. B is the batch per replica.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keras import ops

from cloudgan.gan.differentiable_observables import safe_power, shape_weights
from cloudgan.schema.losses import GENERATOR_TERMS
from cloudgan.schema.presets import Preset

_EPSILON = 1e-7
_LEAST_TARGET = 1e-2
"""Smallest denominator of a percentage: 1 GeV of primary energy, 0.2 MeV in the cells. The
published code divides by 1e-7 and turns one empty shower into a loss of 1e8."""


@dataclass(frozen=True)
class LossInputs:
    """What the loss functions read; targets and outputs are (B, 1).

    Attributes:
        preset: Weights and conventions.
        label: 1 for real, 0 for fake, flips included.
        energy: Primary energy / 100 GeV.
        angle: In rad.
        ecal_sum: Sum over all cells, scaled GeV.
        outputs: Of the discriminator: real, energy, angle (unless the preset has none), sum.
        global_batch_size: Showers per step of all replicas.
        image: Generated powered cells (B, X, Y, Z, 1); None in the discriminator's passes.
        batch_mean: Maps (B, N) to the mean over the global batch, (N,); the longitudinal term needs it.
        replicas: Of the global batch.
        layer_target: Mean of layer energy / primary energy over the training showers, (Z,).
        features: Shape features (B, F) of real showers, of generated ones with the same conditions,
            and of others with the same conditions; None without a shape term.
        feature_scale: Spread of each feature at given conditions, (F,).
        adversarial: Maps label and first output to the loss of real against fake per shower; None:
            the binary cross-entropy.
    """

    preset: Preset
    label: Any
    energy: Any
    angle: Any
    ecal_sum: Any
    outputs: list[Any]
    global_batch_size: int
    image: Any = None
    batch_mean: Any = None
    replicas: int = 1
    layer_target: Any = None
    features: Any = None
    feature_scale: Any = None
    adversarial: Callable[[Any, Any], Any] | None = None

    def share(self, values: Any) -> Any:
        """Returns this replica's share of the mean of values per shower over the global batch."""
        return ops.sum(values) / self.global_batch_size


def weighted_losses(inputs: LossInputs) -> tuple[list[Any], Any]:
    """Returns all terms in the order of `LOSS_TERMS`, unweighted, and their weighted sum.

    A term of the generator only is 0 in the discriminator's passes and without a weight.
    """
    values: list[Any] = []
    total: Any = None
    for name, function in FUNCTIONS.items():
        weight = inputs.preset.loss_weights[name]
        if name in GENERATOR_TERMS and not (weight and inputs.image is not None):
            values.append(ops.zeros_like(total))
            continue
        values.append(function(inputs))
        weighted = weight * values[-1]
        total = weighted if total is None else total + weighted
    return values, total


def real_fake(inputs: LossInputs) -> Any:
    """Adversarial loss of real against fake."""
    loss = inputs.adversarial or binary_crossentropy
    return inputs.share(loss(inputs.label, inputs.outputs[0]))


def energy(inputs: LossInputs) -> Any:
    """Percentage error of the primary energy."""
    return inputs.share(percentage_error(inputs.energy, inputs.outputs[1]))


def angle(inputs: LossInputs) -> Any:
    """Absolute error of the measured angle, rad; 0 for a preset without an angle."""
    found = inputs.outputs[2] if inputs.preset.has_angle else inputs.angle
    return inputs.share(ops.abs(inputs.angle - found))


def ecal_sum(inputs: LossInputs) -> Any:
    """Percentage error of the sum over all cells."""
    return inputs.share(percentage_error(inputs.ecal_sum, inputs.outputs[-1]))


def longitudinal(inputs: LossInputs) -> Any:
    """Sum over layers of |mean layer energy of the global batch - that of the training showers|."""
    mean = inputs.batch_mean(layer_energy(inputs.preset, inputs.image, inputs.energy))
    target = ops.convert_to_tensor(
        inputs.layer_target * inputs.preset.image_scale, dtype=mean.dtype
    )
    return ops.sum(ops.abs(mean - target)) / inputs.replicas


def shape(inputs: LossInputs) -> Any:
    """Energy score of the shape features, see `shape_score`."""
    real, fake, other = inputs.features
    scale, weights = (
        ops.convert_to_tensor(values, dtype=fake.dtype)
        for values in (inputs.feature_scale, shape_weights(inputs.preset))
    )
    return inputs.share(shape_score(real, fake, other, scale, weights))


FUNCTIONS: dict[str, Callable[[LossInputs], Any]] = {
    "real_fake": real_fake,
    "energy": energy,
    "angle": angle,
    "ecal_sum": ecal_sum,
    "longitudinal": longitudinal,
    "shape": shape,
}
"""The functions of the terms, in the order of `LossWeights`."""


def binary_crossentropy(label: Any, probability: Any) -> Any:
    """`-(y ln p + (1-y) ln(1-p))` per shower, p clipped away from 0 and 1."""
    p = ops.clip(probability, _EPSILON, 1 - _EPSILON)
    return -(label * ops.log(p) + (1 - label) * ops.log(1 - p))


def percentage_error(target: Any, value: Any) -> Any:
    """`100 |target - value| / target` per shower."""
    return 100.0 * ops.abs(target - value) / ops.maximum(ops.abs(target), _LEAST_TARGET)


def layer_energy(preset: Preset, image: Any, energy: Any) -> Any:
    """Returns the energy of each layer over the primary energy, times `image_scale`: (B, Z).

    Args:
        preset: Scale and power.
        image: Powered cells, (B, X, Y, Z, 1).
        energy: energy/100, (B, 1).
    """
    layer = ops.sum(safe_power(image, 1.0 / preset.image_power), axis=(1, 2, 4))
    return layer / (100.0 * ops.maximum(energy, _LEAST_TARGET))


def shape_score(real: Any, fake: Any, other: Any, scale: Any, weights: Any) -> Any:
    """Energy score of generated shapes against the real one with the same conditions, (B, 1).

    `|fake - real| - |fake - other| / 2`, whose mean is minimal only for the true distribution at
    given energy and angle (Gneiting and Raftery 2007, doi:10.1198/016214506000001437, section
    4.3); the mean over the single features, plus that of all features together.

    Args:
        real: Features of real showers, (B, F).
        fake: Of generated ones with the same conditions, (B, F).
        other: Of other showers with the same conditions and other noise, (B, F); gets no gradient.
        scale: Spread of each feature at given conditions, (F,).
        weights: Of the features, (F,); their sum is 1.
    """
    miss = _apart(fake, real, scale, weights)
    spread = _apart(fake, ops.stop_gradient(other), scale, weights)
    # Only one shower of the pair gets a gradient from the spread, so it gets twice the weight.
    return miss - spread + ops.stop_gradient(spread) / 2


def _apart(one: Any, other: Any, scale: Any, weights: Any) -> Any:
    squares = ((one - other) / scale) ** 2
    each = ops.sum(weights * ops.sqrt(squares + _EPSILON), 1, keepdims=True)
    return each + ops.sqrt(ops.sum(weights * squares, 1, keepdims=True) + _EPSILON)
