"""Populations as messages, and an asynchronous grid that is killed at each of them, and started again."""

from __future__ import annotations

import shutil
import time

import numpy as np
import pytest

from cloudgan.coevolution.cell import CellState, Population
from cloudgan.coevolution.control import Control
from cloudgan.coevolution.engine import TAG, AsTheyArrive, MessageLayout, run_cell
from cloudgan.coevolution.evolution import Mixture
from cloudgan.coevolution.files import GridFolder
from cloudgan.coevolution.grid import Grid, check_grid
from cloudgan.coevolution.task import KINDS, Individual
from cloudgan.core.errors import CloudganError
from cloudgan.schema.coevolution import CoevolutionConfig
from cloudgan.training.stopping import StopFlag
from coevolution.quadratic_game import LAYOUTS, QuadraticGame, QuadraticPair
from ranks.turns import Killed, Turns


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


CHANGES = [
    {"iteration": 2, "neighbourhood": "none"},
    {"iteration": 4, "neighbourhood": "all"},
]
GRIDS = [
    pytest.param({"rows": 1, "columns": 2}, (0, 0), 12, id="two cells"),
    pytest.param({"rows": 1, "columns": 2}, (0, 9), 4, id="a slow cell"),
    pytest.param({"rows": 1, "columns": 3, "schedule": CHANGES}, (0, 5, 2), 20, id="a schedule"),
    pytest.param(
        *({"rows": 2, "columns": 2}, (0, 3, 0, 7), 40),
        id="two slow of four",
        marks=pytest.mark.slow,
    ),
]


def started(path, config, turns, slow):
    """Runs the cells of a grid to their end, which must come; `slow` are turns of the others in a step."""
    folder = GridFolder(path, check_grid(config))

    class SlowPair(QuadraticPair):
        def train(self, draw, numbers, **options):
            for _ in range(slow[draw.cell]):
                turns.next(draw.cell, moved=True)
            super().train(draw, numbers, **options)

    class SlowGame(QuadraticGame):
        def make_pair(self):
            return SlowPair()

    def cell(rank):
        control = Control(rank, StopFlag(), silence_seconds=30, failed=pytest.fail)
        return run_cell(rank, folder, config, SlowGame(), control)[0]

    assert turns.run(cell) == [None] * config.cells
    return [folder.cell(number) for number in range(config.cells)]


@pytest.mark.parametrize(("shape", "slow", "messages"), GRIDS)
def test_an_asynchronous_grid_that_is_killed_at_any_message_and_started_again_ends(
    tmp_path, monkeypatch, shape, slow, messages
):
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # only one rank runs
    config = CoevolutionConfig.model_validate(
        {"task": "ring", "engine": "ranks", "asynchronous": True, "iterations": 6, "save_every": 3}
        | {"batches": 1, "score_samples": 4, "fitness_samples": 4, "tournament": 1}
        | shape
    )
    undisturbed = Turns(config.cells)
    started(tmp_path / "undisturbed", config, undisturbed, slow)
    assert undisturbed.sent == messages
    for message in range(1, messages + 1):
        path = tmp_path / "run"
        with pytest.raises(Killed):
            started(path, config, Turns(config.cells, kill_at=message), slow)
        for files in started(path, config, Turns(config.cells), slow):
            assert files.points()[-1] == config.iterations, message
            lines = [line.iteration for line in files.lines()]
            assert lines == list(range(1, config.iterations + 1)), message
        shutil.rmtree(path)
