"""Powers of cells that may be zero, several times cheaper than the backend's own."""

from __future__ import annotations

from typing import Any

from keras import ops

_LEAST = 1e-30  # 1e-38 of float32 would make the logarithm's gradient overflow


def raised(cells: Any, exponent: float) -> Any:
    """Returns `cells ** exponent` for cells >= 0 and exponent >= 1; any shape.

    Exponential and logarithm are vectorised where a general power is not (TensorFlow on CPU: 0.5
    against 2.7 ms for 230,000 cells). Value and gradient are 0 at 0.
    """
    if exponent == 1.0:
        return cells
    least = ops.maximum(cells, _LEAST)
    return ops.where(cells > 0, ops.exp(exponent * ops.log(least)), ops.zeros_like(cells))
