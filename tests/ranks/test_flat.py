from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.parallel.centre import exchanged_layout, generator_arrays
from cloudgan.ranks.flat import as_buffer


def variable(shape, *, trainable=True, dtype="float32"):
    return SimpleNamespace(shape=shape, trainable=trainable, dtype=dtype)


VARIABLES = {
    "generator/000/kernel": variable((2, 3)),
    "generator/001/mean": variable((3,), trainable=False),
    "generator/002/bias": variable((1,)),
    "discriminator/000/kernel": variable((4,)),
    "generator_optimizer/000/iterations": variable((), dtype="int64"),
    "ema_generator/000/kernel": variable((2, 3)),
}


def test_trainable_weights_come_first_and_optimizers_and_averages_stay():
    flat = exchanged_layout(VARIABLES)
    assert flat.names == (
        "generator/000/kernel",
        "generator/002/bias",
        "discriminator/000/kernel",
        "generator/001/mean",
    )
    assert (flat.leading_size, flat.size) == (11, 14)


def test_arrays_return_from_the_buffer_in_their_shapes_and_in_keras_order():
    flat = exchanged_layout(VARIABLES)
    arrays = {
        name: np.random.default_rng(0).normal(size=VARIABLES[name].shape) for name in flat.names
    }
    buffer = np.empty(flat.size, np.float32)
    flat.pack((arrays[name] for name in flat.names), buffer)
    for name, view in flat.views(buffer).items():
        np.testing.assert_array_equal(view, arrays[name].astype(np.float32))
    generator = generator_arrays(flat, buffer)
    assert [array.shape for array in generator] == [(2, 3), (3,), (1,)]
    assert as_buffer(generator).shape == (10,)
    shapes = [array.shape for array in list(flat.views(buffer).values())[: flat.leading]]
    assert shapes == [(2, 3), (1,), (4,)]


def test_weights_of_another_precision_are_refused():
    with pytest.raises(ConfigError, match="float64; use --precision=float32"):
        exchanged_layout(VARIABLES | {"generator/003/bias": variable((1,), dtype="float64")})
