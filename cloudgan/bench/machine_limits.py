"""What the machine can do at best: products of matrices per second, and bytes per second."""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Callable

_REPEATS = 3
_CPU_SIDE, _ACCELERATOR_SIDE = 2048, 8192
_COPIED_BYTES = 256 * 2**20


def matmul_gflops(precision: str) -> float:
    """Returns 10^9 operations per second of a large product of matrices, the best of three.

    Same process, threads and libraries as the step; an addition and a multiplication are two.
    """
    side = _side()
    multiply, matrices = _product(precision, side)
    return 2 * side**3 / best_seconds(multiply, *matrices) / 1e9


def copy_gb_per_second() -> float:
    """Returns 10^9 bytes per second that a large copy reads and writes, the best of three."""
    copy, source = _copy()
    return 2 * _COPIED_BYTES / best_seconds(copy, source) / 1e9


def best_seconds(call: Callable[..., Any], *values: Any) -> float:
    """Returns the least of three durations of a call; the device has finished."""
    return min(timed(call, *values) for _ in range(_REPEATS))


def timed(call: Callable[..., Any], *values: Any) -> float:
    """Returns the wall seconds of one call; the device has finished."""
    began = time.perf_counter()
    call(*values)
    if _is_accelerated():
        tf.test.experimental.sync_devices()
    return time.perf_counter() - began


@functools.cache
def _is_accelerated() -> bool:
    return bool(tf.config.list_logical_devices("GPU"))


def _side() -> int:
    return _ACCELERATOR_SIDE if _is_accelerated() else _CPU_SIDE


@functools.cache
def _product(precision: str, side: int) -> tuple[Callable[..., Any], tuple[Any, Any]]:
    matrix = tf.cast(tf.random.stateless_uniform((side, side), (0, 1)), precision)
    multiply = tf.function(tf.matmul)
    multiply(matrix, matrix)
    return multiply, (matrix, matrix)


@functools.cache
def _copy() -> tuple[Callable[..., Any], Any]:
    """A sum with one: TensorFlow would not copy for a copy's sake."""
    source = tf.zeros((_COPIED_BYTES // 4,), tf.float32)
    copy = tf.function(lambda values: values + 1.0)
    copy(source)
    return copy, source
