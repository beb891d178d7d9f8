"""Populations as messages."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.coevolution.cell import CellState, Population
from cloudgan.coevolution.engine import TAG, AsTheyArrive, MessageLayout
from cloudgan.coevolution.evolution import Mixture
from cloudgan.coevolution.grid import Grid
from cloudgan.coevolution.task import KINDS, Individual
from cloudgan.core.errors import CloudganError
from cloudgan.schema.coevolution import CoevolutionConfig
from coevolution.quadratic_game import LAYOUTS
from ranks.turns import Turns


def state_of(iteration, value):
    found = []
    for kind in KINDS:
        one = Individual(
            kind,
            np.arange(4, dtype=np.float32) + np.float32(value),
            0.1 + value / 3,
            "least_squares",
            float("inf") if kind == "generator" else 1 / 3,
            f"31-31/{10**9}/{kind[0]}99",
            f"31-30/{10**9 - 1}/{kind[0]}98",
        )
        found.append((one, one.child("0-0/1/x0")))
    return CellState(iteration, Population(*found), Mixture.uniform((0,)))


def same(one, other):
    return np.array_equal(one.state, other.state) and one.header() == other.header()


def test_a_message_has_all_bits_of_a_population_and_the_states_are_not_copied():
    layout = MessageLayout(LAYOUTS, 2)
    state, message = state_of(7, 1.0), layout.empty()
    layout.pack(state, message)
    found = layout.unpack(message, 3)
    assert found.iteration == 7
    for kind in KINDS:
        pairs = zip(found.population.of(kind), state.population.of(kind), strict=True)
        assert all(same(*pair) for pair in pairs)
        assert all(np.shares_memory(one.state, message) for one in found.population.of(kind))
    message[-600:] = 0
    with pytest.raises(CloudganError, match="a message of cell 3"):
        layout.unpack(message, 3)


def test_an_asynchronous_cell_uses_the_newest_that_has_arrived_until_a_newer_one_arrives():
    config = CoevolutionConfig(rows=1, columns=1, task="ring", population=2)

    def act(rank):
        exchange = AsTheyArrive(
            *(rank, Grid(1, 1), config, LAYOUTS), meanwhile=lambda: pytest.fail("it waited")
        )
        for iteration in (7, 8):  # both are sent before it looks
            message = MessageLayout(LAYOUTS, 2).empty()
            MessageLayout(LAYOUTS, 2).pack(state_of(iteration, 1.0), message)
            rank.start_send(message, 0, TAG)
        found = exchange.gather(state_of(1, 1.0), (0,))
        assert found[0].iteration == 8
        assert exchange.gather(state_of(2, 2.0), (0,))[0] is found[0]
        assert rank.poll() is None

    Turns(1).run(act)
