"""What the device does at best, measured: a matrix product in each precision, and a copy."""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.gpu_step.programs import PRECISIONS
from benchmarks.gpu_step.timing import Ceilings

_TIMES = 5


def measure_ceilings(*, is_large: bool) -> Ceilings:
    """Measures; a GPU's matrices are 8192 wide and its copy is of 2 GiB, a CPU's are smaller."""
    width, count = (8192, 2**29) if is_large else (1024, 2**24)
    tflops = {name: _product(width, name) for name in PRECISIONS}
    values = jax.random.normal(jax.random.key(0), (count,))
    seconds = _least_seconds(jax.jit(lambda x: x * 1.5), values)
    return Ceilings(tflops, 2 * values.nbytes / seconds / 1e9)


def _product(width: int, precision: str) -> float:
    """TFLOP/s of a matrix product of random numbers."""
    kind = jnp.bfloat16 if precision == "bfloat16" else jnp.float32
    factors = jax.random.normal(jax.random.key(1), (2, width, width)).astype(kind)
    with jax.default_matmul_precision(PRECISIONS[precision][1]):
        product = jax.jit(jnp.matmul).lower(factors[0], factors[1]).compile()
    return 2 * width**3 / _least_seconds(product, factors[0], factors[1]) / 1e12


def _least_seconds(call: Any, *arguments: Any) -> float:
    jax.block_until_ready(call(*arguments))
    found = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        for _ in range(_TIMES):
            result = call(*arguments)
        jax.block_until_ready(result)
        found.append((time.perf_counter() - began) / _TIMES)
    return min(found)
