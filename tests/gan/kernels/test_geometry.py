"""Sizes of transformed convolutions."""

from __future__ import annotations

from cloudgan.gan.kernels.geometry import Geometry


def test_the_output_of_padding_on_one_side_only() -> None:
    assert Geometry((5, 6, 7), 1, (2, 3, 4), 1, (1, 0, 0), (0, 0, 3)).output == (5, 4, 7)


def test_zeros_before_and_behind_share_their_place_in_the_period() -> None:
    same = Geometry((51, 51, 25), 1, (5, 6, 6), 16, (2, 2, 2), (2, 3, 3))
    assert same.output == (51, 51, 25)
    assert same.period == (54, 30)  # 51 + 3 and 25 + 3, where 28 holds a seven


def test_the_adjoint_of_the_adjoint_is_the_convolution_itself() -> None:
    sizes = Geometry((9, 8, 7), 3, (2, 3, 4), 5, (1, 0, 2), (0, 2, 1))
    assert sizes.adjoint().output == sizes.size
    assert sizes.adjoint().adjoint() == sizes


def test_both_directions_have_one_period() -> None:
    sizes = Geometry((9, 8, 7), 3, (2, 3, 4), 5, (1, 0, 2), (0, 2, 1))
    assert sizes.adjoint().period == sizes.period
