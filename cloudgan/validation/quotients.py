"""Division where the lower number may be zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def over(above: NDArray[np.floating], below: NDArray[np.floating]) -> Floats:
    """Returns `above / below` in float64, 0 where `below` is not above zero."""
    above, below = np.broadcast_arrays(above, below)
    found: Floats = np.zeros(above.shape)
    np.divide(above, below, out=found, where=below > 0, dtype=np.float64)
    return found


def ratio(above: Floats, below: Floats) -> Floats:
    """Returns `above / below`, nan where `below` is not above zero."""
    return np.where(below > 0, over(above, below), np.nan)
