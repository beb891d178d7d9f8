"""Philox 4x32-10 (Salmon et al. 2011, doi:10.1145/2063384.2063405) on arrays of NumPy or JAX.

TensorFlow has it as kernels; elsewhere these functions give the same bits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 10
_MULTIPLIERS = (np.uint32(0xD2511F53), np.uint32(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF
_MANTISSA = np.uint32(0x7FFFFF)
_ONE = np.uint32(0x3F800000)
"""Of IEEE 754: with a random mantissa a number from 1 to 2."""

LEAST_UNIFORM = np.float32(1e-7)
"""Smallest argument of the logarithm of Box and Muller."""
FULL_TURN = np.float32(2 * math.pi)

Words = tuple[Any, Any, Any, Any]


def philox(counter: Words, key: tuple[int, int]) -> Words:
    """Returns four arrays of random words for counters of four words, each uint32 of one shape."""
    a, b, c, d = counter
    for number in range(_ROUNDS):
        keys = [
            np.uint32((word + number * step) & _WORD) for word, step in zip(key, _WEYL, strict=True)
        ]
        high_a, high_c = high_word(_MULTIPLIERS[0], a), high_word(_MULTIPLIERS[1], c)
        low_a, low_c = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a, b, c, d = high_c ^ b ^ keys[0], low_c, high_a ^ d ^ keys[1], low_a
    return a, b, c, d


def high_word(factor: np.uint32, words: Any) -> Any:
    """Upper half of a product of 64 bits, from products of 16 by 16 bits."""
    half = np.uint32(0xFFFF)
    bits = np.uint32(16)
    low_factor, high_factor = factor & half, factor >> bits
    low, high = words & half, words >> bits
    cross, other = high * low_factor, low * high_factor
    carried = ((low * low_factor) >> bits) + (cross & half) + (other & half)
    return high * high_factor + (cross >> bits) + (other >> bits) + (carried >> bits)


def float_bits(words: Any) -> Any:
    """Returns the bits of floats in [1, 2) with 23 random bits."""
    return (words & _MANTISSA) | _ONE


_SCRAMBLE = (0x3EC8F720, 0x02461E29)
_CUT = 2.0
_BLOCKS_PER_GROUP = 256
_BLOCKS_READ = 6
"""Of a group: 24 normals, of which four are in (-2, 2) in all but one of 1e20 groups."""

Floats = NDArray[np.float32]


def uniform_of_tensorflow(shape: tuple[int, ...], low: float, high: float, seed: int) -> Floats:
    """Returns what `keras.random.uniform` draws under TensorFlow on a CPU; 0 <= `seed` < 2**31."""
    count = math.prod(shape)
    words = _seeded_words(np.arange(-(-count // 4)).astype(np.uint32), seed).reshape(-1)[:count]
    unit = float_bits(words).view(np.float32) - np.float32(1)
    span = np.float32(high) - np.float32(low)
    return (unit * span + np.float32(low)).reshape(shape)


def truncated_normal_of_tensorflow(shape: tuple[int, ...], spread: float, seed: int) -> Floats:
    """Returns what `keras.random.truncated_normal` draws under TensorFlow on a CPU, to rounding.

    Four values come from a group of blocks of their own, in which normals beyond two spreads are skipped.
    """
    count = math.prod(shape)
    groups = -(-count // 4)
    first = np.arange(groups, dtype=np.uint32) * np.uint32(_BLOCKS_PER_GROUP)
    blocks: Any = (first[:, None] + np.arange(_BLOCKS_READ, dtype=np.uint32)).reshape(-1)
    unit = float_bits(_seeded_words(blocks, seed)).view(np.float32) - np.float32(1)
    pairs = unit.reshape(groups, -1, 2)
    radius = np.sqrt(np.float32(-2) * np.log(np.maximum(pairs[..., 0], LEAST_UNIFORM)))
    turn = FULL_TURN * pairs[..., 1]
    normals = np.stack([np.sin(turn) * radius, np.cos(turn) * radius], -1).reshape(groups, -1)
    # A stable sort moves the normals that count to the front, in their order.
    kept = np.argsort(np.abs(normals) >= np.float32(_CUT), axis=1, kind="stable")[:, :4]
    values = np.take_along_axis(normals, kept, 1).reshape(-1)[:count]
    return (values * np.float32(spread)).reshape(shape)


def _seeded_words(blocks: NDArray[np.uint32], seed: int) -> NDArray[np.uint32]:
    """Words of blocks, (N, 4), for a seed of TensorFlow's stateless generators.

    One block of Philox turns the seed into key and counter
    (https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/core/kernels/stateless_random_ops.cc).
    """
    none = np.zeros(1, np.uint32)
    first = (np.full(1, seed, np.uint32), none, none, none)
    key_low, key_high, low, high = (int(word[0]) for word in philox(first, _SCRAMBLE))
    counter = (
        blocks,
        np.zeros_like(blocks),
        np.full_like(blocks, low),
        np.full_like(blocks, high),
    )
    return np.stack(philox(counter, (key_low, key_high)), 1)
