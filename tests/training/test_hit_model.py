"""How far the hits of neighbouring cells vary together."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.training.hit_model import neighbour_shares

LAYERS, SIDE = 3, 12


def hits_of(share_x, share_y, threshold, *, is_ring=False):
    """Thresholds and hits, (200, Z, Y, X), of normals that have these shares of their neighbours' normals."""
    normals = np.random.default_rng(0).standard_normal((200, LAYERS, SIDE + 2, SIDE + 2))
    if is_ring:
        normals[:, :, [0, -1]] = normals[:, :, [-2, 1]]
    along_x = normals[..., 1:-1] + share_x * (normals[..., :-2] + normals[..., 2:])
    both = along_x[:, :, 1:-1] + share_y * (along_x[:, :, :-2] + along_x[:, :, 2:])
    both /= np.sqrt((1 + 2 * share_x**2) * (1 + 2 * share_y**2))
    thresholds = np.full(both.shape, threshold)
    return thresholds, both > -thresholds


@pytest.mark.parametrize("threshold", [-1.5, 0.0, 1.0])
@pytest.mark.parametrize(("share_x", "share_y"), [(0.0, 0.0), (0.15, 0.05), (0.2, 0.3)])
def test_the_shares_of_neighbours_follow_from_hits_that_come_together(share_x, share_y, threshold):
    found = neighbour_shares([hits_of(share_x, share_y, threshold)], LAYERS, is_ring=False)
    assert found[0] == pytest.approx(share_x, abs=0.03)
    assert found[1] == pytest.approx(share_y, abs=0.03)


def test_the_last_angle_of_a_ring_is_a_neighbour_of_the_first():
    threshold, is_hit = hits_of(0.0, 0.3, 0.0, is_ring=True)
    three = threshold[:, :, [0, 1, -1]], is_hit[:, :, [0, 1, -1]]
    (_, on_a_ring), (_, apart) = (
        neighbour_shares([three], LAYERS, is_ring=is_ring) for is_ring in (True, False)
    )
    assert (on_a_ring > apart + 0.02).all()


def test_a_layer_of_few_hits_has_the_shares_of_all_layers():
    threshold, is_hit = hits_of(0.2, 0.2, 0.0)
    threshold[:, 1] = -np.inf
    is_hit[:, 1] = False
    assert neighbour_shares([(threshold, is_hit)], LAYERS, is_ring=False) == pytest.approx(
        0.2, abs=0.03
    )


def test_without_hits_neighbours_are_independent():
    empty = np.full((4, LAYERS, SIDE, SIDE), -np.inf)
    assert not neighbour_shares([(empty, empty > 0)], LAYERS, is_ring=False).any()
