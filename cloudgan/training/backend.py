"""What a step needs of Keras' backend: its module of functions, imported when it is first asked for."""

from __future__ import annotations

from types import ModuleType

import keras


def backend() -> ModuleType:
    """Returns `jax_backend` or `tensorflow_backend`, which define the same functions.

    `gradients`, `sum_over_replicas`, `replicas`, `apply_gradients`, `read`, `put`, the random numbers
    `words`, `halves` and `normals`, of the machine `device_kind`, `conv_device` and `resolve_precision`, and for
    inference `on_device` and `compiled`.
    """
    if keras.config.backend() == "jax":
        from cloudgan.training import jax_backend  # noqa: PLC0415 - without TensorFlow

        return jax_backend
    from cloudgan.training import tensorflow_backend  # noqa: PLC0415 - without JAX

    return tensorflow_backend
