"""The state of a grid of ranks, and the cost of its cells, from the files in its folder."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from cloudgan.api.grid_cost import grid_cost
from cloudgan.core.documents import write_json
from cloudgan.core.errors import DataError
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
