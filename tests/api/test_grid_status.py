"""The state of a grid of ranks, and the cost of its cells, from the files in its folder."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from cloudgan.api.grid_cost import grid_cost
from cloudgan.api.grid_status import find_grid, grid_view
from cloudgan.core.documents import write_json
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.schema import launch
from cloudgan.schema.coevolution import CoevolutionConfig
from cloudgan.schema.grid_status import CellStatus, GridStatus, NodeStatus
from cloudgan.schema.run_folder import RunFolder

WRITTEN = "2026-11-23T12:00:00Z"
LATER = dt.datetime(2026, 11, 23, 12, 0, 5, tzinfo=dt.UTC)


def cell(name, rank, state, **known):
    return CellStatus(name=name, rank=rank, host="alpha", state=state, **known)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A grid of 1x3 cells: one has finished, one trains, one has not begun."""
    monkeypatch.chdir(tmp_path)
    found = RunFolder(tmp_path / "runs" / "grid")
    found.create()
    config = CoevolutionConfig(rows=1, columns=3, task="ring", engine="ranks", iterations=4)
    write_json(found.path / "coevolution.json", config)
    status = GridStatus(
        time=WRITTEN,
        rows=1,
        columns=3,
        iterations=4,
        nodes=(NodeStatus(host="alpha", processor="p", cores=4, memory_gib=8, ranks=5),),
        cells=(
            cell("0-0", 1, "finished", iteration=4, fitness=0.5, memory_bytes=300 * 2**20),
            cell("0-1", 2, "processing", iteration=3, silent_seconds=1.5),
            cell("0-2", 3, "inactive"),
        ),
    )
    write_json(found.path / "status.json", status)
    return found


def test_the_grid_is_drawn_with_state_iteration_fitness_memory_and_age_of_each_cell(folder):
    found = grid_view(folder, LATER)
    first, drawn, *_ = found.lines()
    assert first == "grid: running, grid 1x3, iteration 0 of 4; written 5 s ago"
    assert drawn == "  # o ."
    rows = found.table().rows
    assert rows[0] == ("0-0", 1, "alpha", "finished", 4, 0.5, None, 300, 5.0)
    assert (rows[1][4], rows[1][-1]) == (3, 6.5)  # 1.5 s silent when it was written
    json.dumps(found.as_json())


def test_a_run_that_has_ended_is_not_silent(folder):
    path = folder.path / "status.json"
    path.write_text(path.read_text().replace('"running"', '"finished"'))
    assert grid_view(folder, LATER).table().rows[1][-1] == 1.5


def test_a_grid_is_found_by_path_and_by_name(folder):
    assert find_grid("grid").path.resolve() == folder.path
    assert find_grid(str(folder.path)).path == folder.path
    for other in ("other", "", "s3://lab/x", "x" * 5000, "a\0b"):
        assert find_grid(other) is None
    (folder.path / "plan.json").write_text("{}")
    assert find_grid("grid") is None, "its state is that of its launch"


def test_a_grid_without_status_says_what_to_run(folder):
    (folder.path / "status.json").unlink()
    with pytest.raises(ConfigError, match=r"--engine=ranks writes; `cloudgan evolve --run="):
        grid_view(folder)


def test_a_grid_is_priced_by_cell_and_routine(folder):
    with pytest.raises(DataError, match="no cell has recorded an iteration"):
        grid_cost(folder)
    line = {
        "iteration": 1,
        "generator_fitness": 1,
        "discriminator_fitness": 1,
        "rates": [0.1],
        "losses": ["bce"],
        "selected": ["a"],
        "entered": 0,
        "best": ["a", ""],
        "members": {"0": 1},
        "score": 1,
    }
    for name, wait in (("0-0", 0.0), ("0-1", 2.0), ("0-2", 0.5)):
        cell_folder = folder.path / "cells" / name
        cell_folder.mkdir(parents=True)
        seconds = {"gather": 1.0, "train": 9.0 - wait, "update_genomes": 0, "mutate": 0}
        text = json.dumps(line | {"seconds": seconds | {"wait": wait}})
        (cell_folder / "record.jsonl").write_text(text + "\n")
    found = grid_cost(folder, offer="gcp/n1-standard-8+1xV100/us-central1/spot")
    assert found.node_seconds == pytest.approx(10)  # five ranks on one machine
    assert found.as_json()["usd"] == pytest.approx(found.usd)
    view = found.view()
    assert view.line.startswith(
        "grid: at least 0.0033 USD, as gcp/n1-standard-8+1xV100/us-central1"
    )
    assert view.notes == (
        "idle: cell 0-1 waited for the others for 20% of its time",
        "idle: ranks without a cell, 2 s of nodes",
    )
    assert len(view.table.rows) <= 10
    assert grid_cost(folder).usd is None
    attempt = {
        "provider": "kubernetes",
        "node_type": "cpu",
        "node_count": 2,
        "program_started_at": "2026-11-23T10:00:00Z",
        "program_ended_at": "2026-11-23T10:01:00Z",
    }
    attempts = (launch.Attempt.model_validate(attempt),)
    launch.write(folder.launch_file, launch.Launch(run="grid", config_hash="0", attempts=attempts))
    launched = grid_cost(folder, offer="gcp/n1-standard-8+1xV100/us-central1/spot")
    assert launched.as_json()["launched_node_seconds"] == 120
    assert launched.launched.usd == pytest.approx(12 * found.usd)
    assert "lost iterations: 2 min of nodes" in launched.view().notes[0]
