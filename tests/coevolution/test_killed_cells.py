"""An asynchronous grid that is killed at each of its messages, and started again."""

from __future__ import annotations

import shutil
import time

import pytest

from cloudgan.coevolution.control import Control
from cloudgan.coevolution.engine import run_cell
from cloudgan.coevolution.files import GridFolder
from cloudgan.coevolution.grid import check_grid
from cloudgan.schema.coevolution import CoevolutionConfig
from cloudgan.training.stopping import StopFlag
from coevolution.quadratic_game import QuadraticGame, QuadraticPair
from ranks.turns import Killed, Turns

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
