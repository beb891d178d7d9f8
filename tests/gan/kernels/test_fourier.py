"""Transforms against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from llvmlite import ir

from cloudgan.gan.kernels.compiler import compile_function
from cloudgan.gan.kernels.emitter import LANES, Emitter
from cloudgan.gan.kernels.fourier import (
    Complex,
    is_smooth,
    transform,
    transform_of_real,
    transform_to_real,
)

SIZES = (1, 2, 3, 4, 5, 6, 8, 9, 10, 15, 24, 27, 45, 54)


def run(write, given, outputs):
    """Compiles `write` and runs it on complex values (n, LANES)."""
    module = ir.Module()
    emit = Emitter(module, "program", ("given", "result"))
    places = [emit.at(emit.pointers["given"], 2 * LANES * n) for n in range(len(given))]
    values = [Complex.load(emit, place) for place in places]
    for number, value in enumerate(write(emit, values)[:outputs]):
        value.store(emit.at(emit.pointers["result"], 2 * LANES * number))
    emit.end()
    source = np.stack([given.real, given.imag], 1).astype(np.float32)
    result = np.zeros((outputs, 2, LANES), np.float32)
    compile_function(module, "program")(source.ctypes.data, result.ctypes.data)
    return result[:, 0] + 1j * result[:, 1]


def numbers(size):
    random = np.random.default_rng(size)
    return random.normal(size=(size, LANES)) + 1j * random.normal(size=(size, LANES))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_complex_transform_is_that_of_numpy(size, sign):
    given = numbers(size)
    expected = np.fft.fft(given, axis=0) if sign < 0 else np.fft.ifft(given, axis=0) * size
    found = run(lambda _, values: transform(values, sign), given, size)
    assert np.abs(found - expected).max() < 1e-6 * np.abs(expected).max() + 1e-6


@pytest.mark.parametrize("size", SIZES)
def test_a_real_transform_computes_the_correct_half(size):
    given = numbers(size).real.astype(complex)
    expected = np.fft.rfft(given.real, axis=0)
    found = run(
        lambda emit, values: transform_of_real([Complex(emit, each.re) for each in values], -1),
        given,
        size // 2 + 1,
    )
    assert np.abs(found - expected).max() < 1e-6 * np.abs(expected).max() + 1e-6


@pytest.mark.parametrize("size", SIZES)
def test_half_a_spectrum_goes_back_to_the_real_numbers(size):
    real = numbers(size).real
    half = np.fft.rfft(real, axis=0) / size
    found = run(lambda _, values: transform_to_real(values, size, 1), half, size)
    assert np.abs(found.real - real).max() < 2e-6


def test_known_zeros_are_skipped_without_changing_the_result():
    given = numbers(7)
    expected = np.fft.fft(np.concatenate([given, np.zeros((5, LANES))]), axis=0)
    found = run(lambda emit, values: transform(values + [Complex(emit)] * 5, -1), given, 12)
    assert np.abs(found - expected).max() < 1e-5


def test_only_products_of_two_three_and_five_are_supported():
    assert [size for size in range(1, 20) if not is_smooth(size)] == [7, 11, 13, 14, 17, 19]
