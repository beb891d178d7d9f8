"""The three programs of a layer against explicit float64 sums, and the sizes of transformed convolutions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from cloudgan.gan.kernels.convolution import Convolution, Team
from cloudgan.gan.kernels.emitter import LANES
from cloudgan.gan.kernels.geometry import Geometry, from_spectrum, to_spectrum
from cloudgan.gan.kernels.program import Fusion

ROWS = 3
SHAPES = {
    "one channel to sixteen, same": Geometry((7, 9, 6), 1, (5, 6, 6), 16, (2, 2, 2), (2, 3, 3)),
    "sixteen to eight, valid": Geometry((6, 7, 8), 16, (5, 6, 6), 8, (0, 0, 1), (0, 0, 1)),
    "six to six": Geometry((8, 7, 9), 6, (4, 4, 6), 6, (2, 2, 1), (2, 2, 1)),
    "eight to one": Geometry((4, 5, 6), 8, (2, 3, 3), 1),
}
NEAR = {"rtol": 1e-4, "atol": 2e-5}


@dataclass
class Case:
    """Inputs for one geometry."""

    sizes: Geometry
    fusion: Fusion

    def __post_init__(self):
        random, sizes = np.random.default_rng(1), self.sizes
        self.image = random.normal(size=(ROWS, *sizes.size, sizes.channels))
        self.kernel = random.normal(size=(*sizes.kernel, sizes.channels, sizes.filters)) / 20
        self.bias = random.normal(size=sizes.filters)
        self.scale, self.shift = random.normal(size=(2, sizes.channels))
        self.uniform = random.integers(0, 65536, self.image.shape, dtype=np.uint16)
        self.gradient = random.normal(size=(ROWS, *sizes.output, sizes.filters))
        self.of_sums, self.of_squares = random.normal(size=(2, sizes.filters))

    @property
    def read(self):
        image = self.image
        if self.fusion.affine:
            image = image * self.scale + self.shift
        least = self.fusion.keep_least
        return image if least is None else np.where(self.uniform >= least, image, 0)

    @property
    def result(self):
        value = convolved(self.read, self.kernel, self.sizes) + self.bias
        return np.where(value > 0, value, value * self.fusion.leak)

    @property
    def inner_gradient(self):
        whole = self.gradient + self.of_sums + self.result * self.of_squares
        return np.where(self.result > 0, whole, whole * self.fusion.leak)

    def arrays(self):
        names = ("image", "gradient")
        found = {name: getattr(self, name).astype(np.float32) for name in names}
        for name in ("scale", "shift", "bias", "of_sums", "of_squares"):
            found[name] = padded(getattr(self, name))
        return found | {"uniform": self.uniform, "active": self.result.astype(np.float32)}


def convolved(image, kernel, sizes):
    margins = zip(sizes.before, sizes.after, strict=True)
    image = np.pad(image, [(0, 0), *margins, (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(image, sizes.kernel, axis=(1, 2, 3))
    return np.einsum("nxyzcijk,ijkco->nxyzo", windows, kernel, optimize=True)


def padded(numbers):
    room = -len(numbers) % LANES
    return np.pad(numbers, (0, room)).astype(np.float32)


def spectrum(kernel, sizes):
    x, y, z, channels, filters = kernel.shape
    flat = np.pad(kernel, [(0, 0)] * 4 + [(0, -filters % LANES)])
    flat = flat.transpose(1, 2, 0, 3, 4).reshape(y * z, -1)
    found = (to_spectrum(sizes) @ flat).reshape(-1, 2, x * channels, sizes.result.blocks, LANES)
    return np.ascontiguousarray(found.transpose(0, 2, 3, 1, 4), np.float32).ravel()


def by_channel(sums, channels):
    return sums.astype(float).sum((0, 1))[:channels]


@pytest.fixture(
    params=[
        Fusion(),
        Fusion(affine=True, leak=0.3),
        Fusion(affine=True, keep_least=20000, leak=0.0),
    ],
    ids=["plain", "batch norm", "dropout too"],
)
def fusion(request):
    return request.param


@pytest.fixture(params=SHAPES.values(), ids=SHAPES)
def case(request, fusion):
    sizes: Geometry = request.param
    if fusion.keep_least is not None and sizes.channels % LANES:
        pytest.skip("masks are for whole vectors of channels")
    return Case(sizes, fusion)


@pytest.fixture
def layer(case):
    return Convolution(case.sizes, case.fusion, Team(2))


def test_forward_is_the_activated_convolution_of_its_input(case, layer):
    given = case.arrays() | {"kernel": spectrum(case.kernel, case.sizes)}
    result, sums, squares = layer.forward(given)
    np.testing.assert_allclose(result, case.result, **NEAR)
    filters = case.sizes.filters
    axes = (0, 1, 2, 3)
    np.testing.assert_allclose(
        by_channel(sums, filters), case.result.sum(axes), rtol=1e-3, atol=1e-3
    )
    np.testing.assert_allclose(by_channel(squares, filters), (case.result**2).sum(axes), rtol=1e-4)


def test_the_gradient_of_the_input_is_the_adjoint(case, layer):
    adjoint = case.sizes.adjoint()
    turned = case.kernel[::-1, ::-1, ::-1].swapaxes(3, 4)
    result, of_shift, of_scale = layer.input_gradient(
        case.arrays() | {"kernel": spectrum(turned, adjoint)}
    )
    expected = convolved(case.inner_gradient, turned, adjoint)
    least = case.fusion.keep_least
    if least is not None:
        expected = np.where(case.uniform >= least, expected, 0)
    if case.fusion.affine:
        channels, axes = case.sizes.channels, (0, 1, 2, 3)
        near = {"rtol": 1e-3, "atol": 1e-3}
        np.testing.assert_allclose(by_channel(of_shift, channels), expected.sum(axes), **near)
        products = (expected * case.image).sum(axes)
        np.testing.assert_allclose(by_channel(of_scale, channels), products, **near)
        expected = expected * case.scale
    np.testing.assert_allclose(result, expected, **NEAR)


def test_the_gradient_of_the_kernel_is_that_of_the_sum_over_all_cells(case, layer):
    found, bias_sums = layer.kernel_gradient(case.arrays())
    sizes = case.sizes
    x, y, z = sizes.kernel
    rows = found.reshape(-1, x * sizes.channels, sizes.result.blocks, 2, LANES)
    rows = rows.transpose(0, 3, 1, 2, 4).reshape(
        -1, x * sizes.channels * sizes.result.blocks * LANES
    )
    kernel = (from_spectrum(sizes) @ rows).reshape(y, z, x, sizes.channels, -1)
    kernel = kernel.transpose(2, 0, 1, 3, 4)[..., : sizes.filters]
    margins = zip(sizes.before, sizes.after, strict=True)
    image = np.pad(case.read, [(0, 0), *margins, (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(image, sizes.kernel, axis=(1, 2, 3))
    expected = np.einsum("nxyzcijk,nxyzo->ijkco", windows, case.inner_gradient, optimize=True)
    np.testing.assert_allclose(kernel, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())
    total = case.inner_gradient.sum((0, 1, 2, 3))
    np.testing.assert_allclose(by_channel(bias_sums, sizes.filters), total, rtol=1e-3, atol=1e-3)


def test_a_shower_does_not_depend_on_threads_or_batch(fusion):
    case = Case(SHAPES["eight to one"], fusion)
    given = case.arrays() | {"kernel": spectrum(case.kernel, case.sizes)}
    alone, together = (Convolution(case.sizes, fusion, Team(n)).forward(given)[0] for n in (1, 3))
    np.testing.assert_array_equal(alone, together)


def test_the_output_of_padding_on_one_side_only():
    assert Geometry((5, 6, 7), 1, (2, 3, 4), 1, (1, 0, 0), (0, 0, 3)).output == (5, 4, 7)


def test_zeros_before_and_behind_share_their_place_in_the_period():
    same = Geometry((51, 51, 25), 1, (5, 6, 6), 16, (2, 2, 2), (2, 3, 3))
    assert same.output == (51, 51, 25)
    assert same.period == (54, 30)  # 51 + 3 and 25 + 3, where 28 holds a seven


def test_the_adjoint_of_the_adjoint_is_the_convolution_itself():
    sizes = Geometry((9, 8, 7), 3, (2, 3, 4), 5, (1, 0, 2), (0, 2, 1))
    assert sizes.adjoint().output == sizes.size
    assert sizes.adjoint().adjoint() == sizes


def test_both_directions_have_one_period():
    sizes = Geometry((9, 8, 7), 3, (2, 3, 4), 5, (1, 0, 2), (0, 2, 1))
    assert sizes.adjoint().period == sizes.period
