"""What happens at each frequency: sums over taps along x and over channels, eight filters at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.native.emitter import LANES
from cloudgan.native.geometry import LINE

if TYPE_CHECKING:
    from cloudgan.native.emitter import Emitter
    from cloudgan.native.geometry import Geometry

POSITIONS = 5
"""Cells along x in registers at once: with the kernel and one number of the input, 14 of 16."""


def multiply(emit: Emitter, sizes: Geometry, *, spectrum: Any, kernel: Any, result: Any) -> None:
    """result[x, o] = sum over taps and channels of spectrum[x + tap, c] kernel[tap, c, o].

    All complex, for one frequency: spectrum (planes, channel blocks), kernel (taps along x,
    channels, filter blocks), result (x, filter blocks), in vectors.
    """
    count = sizes.output[0]
    whole = count // POSITIONS * POSITIONS
    plane, row = sizes.channel_blocks * LINE, sizes.filter_blocks * LINE
    for block in range(sizes.filter_blocks):
        at = {"kernel": emit.at(kernel, block * LINE)}
        if whole:
            with emit.loop(whole, POSITIONS) as first:
                at["spectrum"] = emit.at(spectrum, (first, plane))
                at["result"] = emit.at(result, (first, row), block * LINE)
                _multiply_some(emit, sizes, at, POSITIONS)
        if count > whole:
            at["spectrum"] = emit.at(spectrum, whole * plane)
            at["result"] = emit.at(result, whole * row + block * LINE)
            _multiply_some(emit, sizes, at, count - whole)


def _multiply_some(emit: Emitter, sizes: Geometry, at: dict[str, Any], positions: int) -> None:
    plane = sizes.channel_blocks * LINE
    sums = [emit.constant(0.0)] * (2 * positions)
    with emit.summing(sizes.kernel[0], sums) as (tap, carried):
        taps = emit.at(at["kernel"], (tap, sizes.channels * sizes.filter_blocks * LINE))
        cells = emit.at(at["spectrum"], (tap, plane))
        for channel in range(sizes.channels):
            weights = emit.at(taps, channel * sizes.filter_blocks * LINE)
            w_re, w_im = emit.load(weights), emit.load(emit.at(weights, LANES))
            offset = channel // LANES * LINE + channel % LANES
            for position in range(positions):
                re, im = 2 * position, 2 * position + 1
                cell = emit.at(cells, position * plane + offset)
                x_re, x_im = emit.broadcast(cell), emit.broadcast(emit.at(cell, LANES))
                carried[re] = emit.add(carried[re], emit.multiply(x_re, w_re))
                carried[im] = emit.add(carried[im], emit.multiply(x_re, w_im))
                carried[re] = emit.subtract(carried[re], emit.multiply(x_im, w_im))
                carried[im] = emit.add(carried[im], emit.multiply(x_im, w_re))
    row = sizes.filter_blocks * LINE
    target = at["result"]
    for position in range(positions):
        emit.store(sums[2 * position], emit.at(target, position * row))
        emit.store(sums[2 * position + 1], emit.at(target, position * row + LANES))


def correlate(emit: Emitter, sizes: Geometry, *, spectrum: Any, gradient: Any, result: Any) -> None:
    """result[tap, c, o] += sum over x of spectrum[x + tap, c] conj(gradient[x, o])."""
    pairs = [(tap, c) for tap in range(sizes.kernel[0]) for c in range(sizes.channels)]
    for block in range(sizes.filter_blocks):
        at = {
            "spectrum": spectrum,
            "gradient": emit.at(gradient, block * LINE),
            "result": emit.at(result, block * LINE),
        }
        for begin in range(0, len(pairs), POSITIONS):
            _correlate_some(emit, sizes, at, pairs[begin : begin + POSITIONS])


def _correlate_some(
    emit: Emitter, sizes: Geometry, at: dict[str, Any], pairs: list[tuple[int, int]]
) -> None:
    plane, row = sizes.channel_blocks * LINE, sizes.filter_blocks * LINE
    targets = [emit.at(at["result"], (tap * sizes.channels + c) * row) for tap, c in pairs]
    sums = [emit.load(emit.at(target, part)) for target in targets for part in (0, LANES)]
    with emit.summing(sizes.output[0], sums) as (x, carried):
        gradient = emit.at(at["gradient"], (x, row))
        g_re, g_im = emit.load(gradient), emit.load(emit.at(gradient, LANES))
        cells = emit.at(at["spectrum"], (x, plane))
        for number, (tap, c) in enumerate(pairs):
            re, im = 2 * number, 2 * number + 1
            cell = emit.at(cells, tap * plane + c // LANES * LINE + c % LANES)
            x_re, x_im = emit.broadcast(cell), emit.broadcast(emit.at(cell, LANES))
            carried[re] = emit.add(carried[re], emit.multiply(x_re, g_re))
            carried[im] = emit.add(carried[im], emit.multiply(x_im, g_re))
            carried[re] = emit.add(carried[re], emit.multiply(x_im, g_im))
            carried[im] = emit.subtract(carried[im], emit.multiply(x_re, g_im))
    for number, target in enumerate(targets):
        emit.store(sums[2 * number], target)
        emit.store(sums[2 * number + 1], emit.at(target, LANES))
