"""A convolution after up-sampling, as a smaller one over the coarse cells: its kernel. No Keras here.

Up-sampling by u repeats each cell u times, so neighbouring kernel taps multiply the same value. The taps of
each of the u output phases are summed first; the phases are then channels of the coarse cells.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cloudgan.schema.architecture import Cells


def coarse_taps(taps: int, up: int) -> int:
    """Returns the coarse cells that `taps` neighbouring fine cells touch at most, along one axis."""
    return (up - 1 + taps - 1) // up + 1


def phase_kernel(kernel: Any, upsample: Cells, library: Any) -> Any:
    """Sums a kernel (x, y, z, C, filters) by phase: (tx, ty, tz, C, u*v*w*filters).

    Args:
        kernel: Of the convolution of fine cells.
        upsample: u, v, w: fine cells per coarse cell along each axis.
        library: `keras.ops` or NumPy.
    """
    channels, filters = (int(size) for size in kernel.shape[3:])
    pairs = [(int(taps), up) for taps, up in zip(kernel.shape[:3], upsample, strict=True)]
    sums_x, sums_y, sums_z = (library.array(_tap_sums(*pair), kernel.dtype) for pair in pairs)
    kernel = library.einsum("xyzio,zwc->xyciwo", kernel, sums_z)
    kernel = library.einsum("xyciwo,yvb->xbcivwo", kernel, sums_y)
    kernel = library.einsum("xbcivwo,xua->abciuvwo", kernel, sums_x)
    phases = upsample[0] * upsample[1] * upsample[2]
    return library.reshape(
        kernel, (*(coarse_taps(*pair) for pair in pairs), channels, phases * filters)
    )


def _tap_sums(taps: int, up: int) -> np.ndarray[Any, Any]:
    """(taps, phases, coarse cells): 1 where a tap of a phase falls into a coarse cell."""
    sums = np.zeros((taps, up, coarse_taps(taps, up)), np.float32)
    for tap in range(taps):
        for phase in range(up):
            sums[tap, phase, (tap + phase) // up] = 1
    return sums
