"""Generator and discriminator of dense layers: those of the ring."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.coevolution.task import KINDS, Draw, Individual
from coevolution.tasks.conftest import leading_arrays

pytestmark = pytest.mark.tf

DRAW = Draw(seed=7, cell=2, iteration=3, purpose=1)


@pytest.fixture(scope="module")
def make_pair():
    from cloudgan.coevolution.tasks.ring import RingPair

    return lambda: RingPair(32)


@pytest.fixture(scope="module")
def pair(make_pair):
    return make_pair()


def individual(pair, kind, seed=11, loss="bce", **changes):
    state = changes.pop("state", None)
    state = pair.initial(kind, seed) if state is None else state
    return Individual(kind=kind, state=state, rate=1e-3, loss=loss, fitness=0.0, name="2/3/0")


def trained(pair, *, calls=((0, 1, 2, 3, 4),), generator=True, discriminator_every=2, **changes):
    """States of both networks after batches, in one or more calls."""
    for kind in ("generator", "discriminator"):
        pair.load(individual(pair, kind, **changes))
    for numbers in calls:
        pair.train(DRAW, numbers, generator=generator, discriminator_every=discriminator_every)
    return pair.read("generator"), pair.read("discriminator")


@pytest.fixture(scope="module")
def states(pair):
    return trained(pair)


def test_the_same_draw_has_the_same_batches_in_any_request(pair):
    together = pair.batches(DRAW, (0, 1, 2))
    assert together["real"].shape == (3, 32, 2)
    assert together["noise"].shape == (3, 32, 32)
    for number in range(3):
        alone = pair.batches(DRAW, (number,))
        for name, array in alone.items():
            np.testing.assert_array_equal(array[0], together[name][number])
    for array in together.values():
        assert not np.array_equal(array[0], array[1])


@pytest.mark.parametrize("place", ["seed", "cell", "iteration", "purpose"])
def test_every_part_of_a_draw_changes_its_batches(pair, place):
    other = DRAW._replace(**{place: getattr(DRAW, place) + 1})
    for name, array in pair.batches(DRAW, (0,)).items():
        assert not np.array_equal(array, pair.batches(other, (0,))[name])


def test_a_pair_returns_the_state_that_was_loaded(pair, states):
    for kind, state in zip(("generator", "discriminator"), states, strict=True):
        pair.load(individual(pair, kind, state=state))
        np.testing.assert_array_equal(pair.read(kind), state)


def test_two_pairs_trained_with_equal_draws_have_equal_bits(make_pair, states):
    for found, expected in zip(trained(make_pair()), states, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_training_in_one_call_equals_a_call_per_batch(pair, states):
    calls = ((0,), (1, 2), (3,), (4,))
    for found, expected in zip(trained(pair, calls=calls), states, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_the_optimiser_is_adam_with_a_first_decay_of_one_half(pair):
    for kind, state in zip(
        ("generator", "discriminator"), trained(pair, calls=[(0,)]), strict=True
    ):
        layout = pair.layouts[kind]
        arrays = layout.views(state)
        moment, velocity = (
            np.concatenate([array.ravel() for name, array in arrays.items() if mark in name])
            for mark in ("momentum", "velocity")
        )
        large = velocity > 1e-9
        assert large.any()
        # After one update they are (1 - 0.5) g and (1 - 0.999) g^2.
        np.testing.assert_allclose(moment[large] ** 2 / velocity[large], 0.25 / 0.001, rtol=1e-3)


def test_training_leaves_the_loaded_individual_as_it_was(pair):
    raw = np.zeros(pair.layouts["generator"].size * 4 + 64, np.uint8)
    start = -raw.ctypes.data % 64  # TensorFlow uses memory at such an address without a copy
    state = raw[start : start + raw.size - 64].view(np.float32)
    state[:] = pair.initial("generator", 3)
    pair.load(individual(pair, "generator", state=state))
    pair.load(individual(pair, "discriminator"))
    pair.train(DRAW, (0, 1), generator=True, discriminator_every=1)
    np.testing.assert_array_equal(state, pair.initial("generator", 3))


def test_only_the_networks_that_are_asked_for_are_trained(pair, states):
    first = [pair.initial(kind, 11) for kind in ("generator", "discriminator")]
    for state, before in zip(states, first, strict=True):
        assert not np.array_equal(state, before)
    alone = trained(pair, generator=False)
    np.testing.assert_array_equal(alone[0], first[0])
    alone = trained(pair, discriminator_every=0)
    np.testing.assert_array_equal(alone[1], first[1])


def test_each_loss_trains_both_networks_in_its_own_way(pair, states):
    squares = trained(pair, loss="least_squares")
    for found, bce in zip(squares, states, strict=True):
        assert not np.array_equal(found, bce)
    heuristic = trained(pair, loss="heuristic", discriminator_every=0)
    assert not np.array_equal(heuristic[0], trained(pair, discriminator_every=0)[0])
    heuristic = trained(pair, loss="heuristic", generator=False)
    np.testing.assert_array_equal(heuristic[1], trained(pair, generator=False)[1])


def forward(weights, values, last):
    for number in range(0, len(weights), 2):
        values = values @ weights[number].astype(float) + weights[number + 1]
        if number < len(weights) - 2:
            values = np.tanh(values)
    return last(values)


def test_losses_are_the_cross_entropies_of_the_networks_by_hand(pair, states):
    generators = [individual(pair, "generator", seed) for seed in (1, 2)]
    discriminators = [individual(pair, "discriminator", state=states[1])]
    found = pair.losses(pair.fakes(DRAW, generators, 100), discriminators)
    assert [found[kind].shape for kind in KINDS] == [(2, 1), (1, 2)]
    held = pair.held_batch(DRAW, 100)

    def judged(values):
        weights = leading_arrays(pair.layouts["discriminator"], states[1])
        return forward(weights, values, lambda x: 1 / (1 + np.exp(-x)))

    real = judged(held["real"])
    for number, each in enumerate(generators):
        weights = leading_arrays(pair.layouts["generator"], each.state)
        fake = forward(weights, held["noise"], lambda x: x)
        np.testing.assert_allclose(pair.generate(DRAW, each, 100), fake, atol=1e-5)
        p = judged(fake)
        assert found["generator"][number, 0] == pytest.approx(-np.log(p).mean(), rel=1e-4)
        expected = -np.log(real).mean() - np.log(1 - p).mean()
        assert found["discriminator"][0, number] == pytest.approx(expected, rel=1e-4)


def test_training_a_discriminator_lowers_its_loss(pair, states):
    generator = individual(pair, "generator")
    before = individual(pair, "discriminator")
    _, state = trained(pair, calls=[range(400)], generator=False, discriminator_every=1)
    after = individual(pair, "discriminator", state=state)
    losses = pair.losses(pair.fakes(DRAW, [generator], 200), [before, after])["discriminator"]
    assert losses[1, 0] < losses[0, 0] / 2


def test_first_weights_depend_on_seed_and_kind_and_have_the_glorot_spread(pair):
    layout = pair.layouts["generator"]
    one, two = (leading_arrays(layout, pair.initial("generator", seed)) for seed in (1, 2))
    assert not np.array_equal(one[0], two[0])
    np.testing.assert_array_equal(one[0], leading_arrays(layout, pair.initial("generator", 1))[0])
    assert one[0].std() == pytest.approx((2 / sum(one[0].shape)) ** 0.5, rel=0.05)
    assert not one[1].any()
    other = leading_arrays(pair.layouts["discriminator"], pair.initial("discriminator", 1))
    assert other[2].shape == one[2].shape
    assert not np.array_equal(other[2], one[2])
