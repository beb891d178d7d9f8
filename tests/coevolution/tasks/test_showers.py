"""The task of the showers, with the preset smoke and simulated showers of 9 x 9 x 25 cells."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from cloudgan.coevolution.task import KINDS, Draw, Individual
from cloudgan.coevolution.tasks.showers import Showers
from cloudgan.core.errors import ConfigError
from cloudgan.schema.coevolution import CoevolutionConfig
from cloudgan.schema.config import parse_config
from coevolution.tasks.conftest import leading_arrays

pytestmark = [pytest.mark.tf, pytest.mark.slow]

DRAW = Draw(seed=7, cell=2, iteration=3, purpose=6)
CONFIG = CoevolutionConfig(task="showers", batches=4, batch_size=8, fitness_samples=16)
RUN = {"model": {"preset": "smoke"}, "data": {"held_out_fraction": 0.5}, "training": {"seed": 7}}
RATE = 1e-3


@pytest.fixture(scope="module")
def task(shower_shards):
    return Showers(CONFIG, parse_config(RUN, "run.yaml"), shower_shards)


@pytest.fixture(scope="module")
def pair(task):
    return task.make_pair()


@pytest.fixture(scope="module")
def first(pair):
    """An individual of each kind, as drawn."""
    return {
        kind: Individual(kind, pair.initial(kind, 5), RATE, "bce", 0.0, f"2-0/0/{kind[0]}0")
        for kind in KINDS
    }


def trained(pair, first, *calls, loss="bce", **options):
    """States of both after calls of `train`, each with the numbers of its batches."""
    for kind in KINDS:
        pair.load(replace(first[kind], loss=loss))
    for numbers in calls:
        pair.train(DRAW, numbers, **{"generator": True, "discriminator_every": 2} | options)
    return {kind: pair.read(kind) for kind in KINDS}


@pytest.fixture(scope="module")
def after(pair, first):
    """States after the batches of one iteration."""
    return trained(pair, first, range(4))


def test_one_call_trains_to_the_same_bits_as_a_call_for_each_batch(pair, first, after):
    again = trained(pair, first, *((number,) for number in range(4)))
    for kind in KINDS:
        assert not np.array_equal(after[kind], first[kind].state)
        np.testing.assert_array_equal(again[kind], after[kind])


def test_an_individual_trains_as_the_ordinary_step_does(pair, first):
    """To rounding: the step runs here without a graph."""
    import tensorflow as tf

    of_cell = trained(pair, first, (1,), generator=False, discriminator_every=1)
    halfway = {kind: replace(first[kind], state=of_cell[kind]) for kind in KINDS}
    of_cell = trained(pair, halfway, (1,), discriminator_every=0)
    for kind in KINDS:
        pair.load(first[kind])
    batch = {name: tf.constant(array[0]) for name, array in pair.batches(DRAW, (1,)).items()}
    pair._step(batch)
    for kind in KINDS:
        moved = np.abs(of_cell[kind] - first[kind].state).max()
        np.testing.assert_allclose(of_cell[kind], pair.read(kind), rtol=1e-3, atol=1e-3 * moved)


def test_a_loss_is_that_of_the_individual(pair, first, after):
    for loss in ("least_squares", "heuristic"):
        other = trained(pair, first, range(4), loss=loss)
        assert not np.array_equal(other["generator"], after["generator"])
    # The generator moved, so the fake showers of the discriminator did; on real ones alone it
    # keeps the cross-entropy.
    heuristic, usual = (
        trained(pair, first, (0,), loss=loss, generator=False) for loss in ("heuristic", "bce")
    )
    np.testing.assert_array_equal(heuristic["discriminator"], usual["discriminator"])


def test_the_average_follows_the_generator_and_takes_its_statistics(pair, after):
    weights = leading_arrays(pair.layouts["generator"], after["generator"])
    half = len(weights) // 2
    one, average = weights[:half], weights[half:]
    before = leading_arrays(pair.layouts["generator"], pair.initial("generator", 5))[:half]
    kernels = [n for n, weight in enumerate(one) if weight.ndim == 5]
    assert kernels
    for number in kernels:
        way = one[number] - before[number]
        gone = average[number] - before[number]
        share = float((gone * way).sum() / (way * way).sum())
        assert 0 < share < 0.2  # four steps of a hundredth, behind a moving generator
    names = pair.layouts["generator"].names[:half]
    moving = [n for n, name in enumerate(names) if "moving" in name]
    assert moving
    for number in moving:
        np.testing.assert_array_equal(one[number], average[number])


def test_batches_are_a_function_of_the_draw_and_the_number(pair):
    together = pair.batches(DRAW, (0, 1, 2))
    assert together["image"].shape == (3, 8, 9, 9, 25, 1)
    assert len(np.unique(together["step"])) == 3
    for number in range(3):
        for name, array in pair.batches(DRAW, (number,)).items():
            np.testing.assert_array_equal(array[0], together[name][number])
    for place in ("seed", "cell", "iteration"):
        other = pair.batches(DRAW._replace(**{place: getattr(DRAW, place) + 1}), (0,))
        assert not np.array_equal(other["energy"], together["energy"][:1])
        assert not np.array_equal(other["step"], together["step"][:1])


def test_a_cell_sees_its_share_of_the_showers_once_per_epoch(task):
    from cloudgan.coevolution.tasks.shower_pair import ShowerBatches

    count = task.showers.count
    for share in (1.0, 0.4):
        batches = ShowerBatches(task.showers, CONFIG.model_copy(update={"data_share": share}), 4)
        own = math.ceil(share * count)
        seen = [
            batches.training(DRAW._replace(iteration=iteration), range(4))["energy"]
            for iteration in range(-(-own // 32))
        ]
        energies = np.concatenate(seen).ravel()[:own]
        assert len(np.unique(energies)) == own
    other = batches.training(DRAW._replace(cell=3, iteration=0), range(4))["energy"]
    assert not np.isin(other.ravel(), energies).all()


def test_fitness_is_the_total_losses_of_all_pairs_on_held_out_showers(pair, first, after):
    new = {kind: replace(first[kind], state=after[kind]) for kind in KINDS}
    generators, discriminators = ([first[kind], new[kind]] for kind in KINDS)
    fakes = pair.fakes(DRAW, generators, 16)
    losses = pair.losses(fakes, discriminators)
    assert [losses[kind].shape for kind in KINDS] == [(2, 2), (2, 2)]
    assert np.isfinite(list(losses.values())).all()
    swapped = pair.losses(pair.fakes(DRAW, generators[::-1], 16), discriminators)
    np.testing.assert_array_equal(swapped["generator"], losses["generator"][::-1])
    np.testing.assert_array_equal(swapped["discriminator"], losses["discriminator"][:, ::-1])
    alone = pair.losses(fakes, discriminators[1:], ("generator",))
    assert set(alone) == {"generator"}
    np.testing.assert_array_equal(alone["generator"], losses["generator"][:, 1:])
    held = pair.held_batch(DRAW, 100)["energy"].ravel()
    everything = task_energies(pair)
    assert np.isin(held, everything).all()
    assert len(np.unique(held[: len(everything)])) == len(everything)


def task_energies(pair):
    return pair._shower_batches._showers.held_out_batch().energy.ravel()


def test_monte_carlo_is_better_than_an_untrained_generator(task, pair, first):
    samples = pair.generate(DRAW, first["generator"], 45)
    assert samples.shape == (45, 9, 9, 25)
    np.testing.assert_array_equal(samples, pair.generate(DRAW, first["generator"], 45))
    others = pair.generate(DRAW._replace(cell=1), first["generator"], 45)
    assert not np.array_equal(samples, others)
    monte_carlo = task.quality(task.showers.held_out().ecal_gev)
    untrained = task.quality(samples)
    assert monte_carlo.score < 0.5 * untrained.score
    assert set(monte_carlo.details) >= {"response", "hits"}
    assert task.quality(np.zeros_like(samples)).score > monte_carlo.score
    assert task.quality(np.full_like(samples, np.nan)).score == math.inf


def test_sample_n_has_condition_n_and_conditions_repeat(task):
    few, many = task.conditions(45), task.conditions(100)
    np.testing.assert_array_equal(many.energy_gev[:45], few.energy_gev)
    np.testing.assert_array_equal(many.energy_gev[45:90], few.energy_gev)


def test_pictures_are_of_at_most_sixteen_showers_from_0_to_1(task):
    showers = task.showers.held_out().ecal_gev
    showers[0, 0] = np.nan
    pictures = task.pictures(showers)
    assert pictures.shape == (16, 9, 25)
    assert pictures.min() == 0
    assert pictures.max() == 1


def test_another_precision_is_refused(shower_shards):
    run = RUN | {"training": {"precision": "float64"}}
    with pytest.raises(ConfigError, match="float32"):
        Showers(CONFIG, parse_config(run, "run.yaml"), shower_shards)
