"""Speed and intensity of each convolution and pass that was timed alone.

Intensity is operations per byte, where the bytes are those of input, output and weights, each once:
what a layer moves at least.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from cloudgan.bench.arithmetic import PASSES
from cloudgan.models.convolutions import convolutions

if TYPE_CHECKING:
    from cloudgan.bench.arithmetic import Pass
    from cloudgan.bench.step import Measured, StepResult
    from cloudgan.models.convolutions import Form

_BYTES = {"float32": 4, "bfloat16": 2, "float64": 8}


@dataclass(frozen=True)
class LayerPass:
    """One pass of one convolution over a batch.

    Attributes:
        network: generator or discriminator.
        layer: Its name there.
        pass_name: forward, input_gradient or weight_gradient.
        seconds: Median of a batch.
        gflop: 10^9 operations of a batch, counted for the form that was timed.
        gflops: 10^9 operations per second.
        flop_per_byte: Of input, output and weights.
    """

    network: str
    layer: str
    pass_name: Pass
    seconds: float
    gflop: float
    gflops: float
    flop_per_byte: float

    @property
    def label(self) -> str:
        """Such as G1: the network and the number of the layer, from one."""
        return f"{self.network[0].upper()}{int(self.layer.removeprefix('conv')) + 1}"

    def as_json(self) -> dict[str, Any]:
        """By name."""
        told = asdict(self)
        return {
            "network": told.pop("network"),
            "layer": told.pop("layer"),
            "pass": told.pop("pass_name"),
        } | told


def layer_passes(result: StepResult) -> tuple[LayerPass, ...]:
    """Returns what was timed of layers, in the order of the networks."""
    own = result.own
    layers = convolutions(own.preset)[: len(result.layers)]
    batch = own.built["global_batch"] // own.built["replicas"]
    width = _BYTES[own.variant.config.training.precision]
    found = []
    for layer, seconds in zip(layers, result.layers, strict=True):
        gflop = 2e-9 * layer.macs(counted_form(own)) * batch
        moved = width * (layer.values * batch + layer.weights)
        for name in PASSES:
            speed = gflop / seconds[name]
            found.append(
                LayerPass(
                    *(layer.network, layer.name, name, seconds[name], gflop, speed),
                    flop_per_byte=1e9 * gflop / moved,
                )
            )
    return tuple(found)


def counted_form(measured: Measured) -> Form:
    """The form whose products are counted for what was measured."""
    return "published" if measured.built["formulation"] == "published" else "phases"
