"""Model parallelism: layers of a network on several devices, forward and backward.

A placed layer has its variables on its device, and its operations of both passes: only activations
and their gradients cross between devices. `keras.distribution` has no effect with TensorFlow (Keras
3.15: all variables stay on the first device), so the layers are placed by `tf.device`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from cloudgan.gan.footprint import device_of
from cloudgan.training.tensorflow_backend import slots, stage_devices


def place_networks(networks: Sequence[keras.Model | None], stages: Sequence[str]) -> None:
    """Moves the layers of networks from each stage on to the next device; see `place_layers`."""
    devices = stage_devices(stages)
    for network in networks:
        if network:
            place_layers(network, stages, devices)


def place_layers(network: keras.Model, stages: Sequence[str], devices: Sequence[str]) -> None:
    """Moves the layers of a functional network, from each stage on, to the next device, such as GPU:1.

    A layer after others is on the last of their devices. Call it before optimizers are built and
    functions are traced. Stages are names of layers, in the order of the network.
    """
    number: dict[int, int] = {}
    for operation in network.operations:
        parents = (
            number[id(tensor._keras_history.operation)]
            for node in operation._inbound_nodes
            for tensor in node.input_tensors
        )
        own = device_of(_block(operation.name), stages)
        number[id(operation)] = found = max(own, *parents, 0)
        if found:
            _move(operation, devices[found])


def place_slots(optimizer: Any, weights: Sequence[keras.Variable]) -> None:
    """Moves the slots of an optimizer, built with placed `weights`, to the devices of these."""
    for name in ("momentum", "velocity"):
        for slot, weight in zip(slots(optimizer, name), weights, strict=False):
            _move_variable(slot, weight.value.device)


def _block(name: str) -> int:
    """Number of a convolution; -1 for any other layer."""
    text = name.removeprefix("conv")
    return int(text) if text != name and text.isdecimal() else -1


def _move(operation: Any, device: str) -> None:
    """Moves variables and operations of a layer, which may be one of Keras' functions without any."""
    for variable in getattr(operation, "variables", ()):
        _move_variable(variable, device)
    operation.call = _on_device(operation.call, device)


def _move_variable(variable: keras.Variable, device: str) -> None:
    """Replaces the variable's storage, before anything was traced with it."""
    with tf.device(device):
        variable._value = tf.Variable(
            variable.value, trainable=variable.trainable, name=variable.name
        )


def _on_device(call: Callable[..., Any], device: str) -> Callable[..., Any]:
    """Returns `call` with both passes on a device.

    A tape runs the backward operations wherever it is asked for gradients, so the layer has its own
    tape, and asks it on its device.
    """

    def placed(*args: Any, **options: Any) -> Any:
        tensors = tf.nest.flatten(args)

        @tf.custom_gradient
        def both_passes(*values: tf.Tensor) -> Any:
            with tf.device(device), tf.GradientTape() as tape:
                tape.watch(values)
                result = call(*tf.nest.pack_sequence_as(args, list(values)), **options)

            def backward(slope: tf.Tensor, variables: Sequence[tf.Variable] | None = None) -> Any:
                with tf.device(device):
                    sources = (list(values), list(variables or ()))
                    found, of_variables = tape.gradient(result, sources, slope)
                return (found, of_variables) if variables else found

            return result, backward

        return both_passes(*tensors)

    return placed
