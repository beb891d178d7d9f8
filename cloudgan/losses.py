"""The four published loss terms per shower, and ours; nothing is averaged here.

Shapes: every argument and result is (B, 1) unless said otherwise. All are finite, with finite
gradients, for empty showers and zero energies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keras import ops

from cloudgan.models.power import raised

if TYPE_CHECKING:
    from cloudgan.core.presets import Preset

_EPSILON = 1e-7
_LEAST_TARGET = 1e-2
"""A percentage is taken of at least this: 1 GeV of primary energy, 0.2 MeV in the cells. The
published code divides by 1e-7 and turns one empty shower into a loss of 1e8."""

TERMS = ("real_fake", "energy", "angle", "ecal_sum")


def binary_crossentropy(label: Any, probability: Any) -> Any:
    """`-(y ln p + (1-y) ln(1-p))`, p kept off 0 and 1."""
    p = ops.clip(probability, _EPSILON, 1 - _EPSILON)
    return -(label * ops.log(p) + (1 - label) * ops.log(1 - p))


def percentage_error(target: Any, value: Any) -> Any:
    """`100 |target - value| / target`."""
    return 100.0 * ops.abs(target - value) / ops.maximum(ops.abs(target), _LEAST_TARGET)


def terms(preset: Preset, targets: tuple[Any, Any, Any, Any], outputs: list[Any]) -> list[Any]:
    """Returns the terms named by `TERMS`, unweighted, each (B, 1).

    Args:
        preset: Says whether there is an angle; where there is none its term is zero.
        targets: Label, energy/100, angle in rad, sum in scaled GeV.
        outputs: What the discriminator says, in its own order.
    """
    label, energy, angle, ecal_sum = targets
    real, said_energy, *rest = outputs
    said_angle = rest[0] if preset.has_angle else angle
    return [
        binary_crossentropy(label, real),
        percentage_error(energy, said_energy),
        ops.abs(angle - said_angle),
        percentage_error(ecal_sum, rest[-1]),
    ]


def weights(preset: Preset) -> list[float]:
    """Returns the weights in the order of `TERMS`."""
    return [float(getattr(preset.loss_weights, name)) for name in TERMS]


def layer_energy(preset: Preset, image: Any, energy: Any) -> Any:
    """Energy of each layer as a share of the primary energy, times `image_scale`: (B, Z).

    Args:
        preset: Holds scale and power.
        image: Powered cells, (B, X, Y, Z, 1).
        energy: energy/100, (B, 1).
    """
    layer = ops.sum(raised(image, 1.0 / preset.image_power), axis=(1, 2, 4))
    return layer / (100.0 * ops.maximum(energy, _LEAST_TARGET))


def shape_score(real: Any, fake: Any, other: Any, scale: Any, weights: Any) -> Any:
    """Energy score of generated shapes against the real one with the same conditions, (B, 1).

    `|fake - real| - |fake - other| / 2`, least in the mean only where the distribution at given
    energy and angle is right (Gneiting and Raftery 2007, doi:10.1198/016214506000001437, section
    4.3); the mean over the features one by one, plus that of all together.

    Args:
        real: Features of real showers, (B, F).
        fake: Of generated ones with the same conditions, (B, F).
        other: Of others with the same conditions and other noise, (B, F); no gradient goes there.
        scale: Spread of each feature at given conditions, (F,).
        weights: Of the features, (F,), of sum 1.
    """
    miss = _apart(fake, real, scale, weights)
    spread = _apart(fake, ops.stop_gradient(other), scale, weights)
    # Both showers of the pair would feel the spread: one does, so it does so with twice the weight.
    return miss - spread + ops.stop_gradient(spread) / 2


def _apart(one: Any, other: Any, scale: Any, weights: Any) -> Any:
    squares = ((one - other) / scale) ** 2
    each = ops.sum(weights * ops.sqrt(squares + _EPSILON), 1, keepdims=True)
    return each + ops.sqrt(ops.sum(weights * squares, 1, keepdims=True) + _EPSILON)
