"""A rank of each role is killed at its start, in an exchange, in a save and during a validation."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cloudgan.core.progress import Silent
from cloudgan.ranks import process
from cloudgan.ranks.process import LocalRanks
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig
from cloudgan.schema.run_folder import RunFolder

PROGRAM = Path(__file__).with_name("killed_ranks_program.py")
EVERY, STEPS = 32, 400
IN_FLIGHT = 24
"""Steps of all workers between the moment at which a point is due and that at which all have saved for it."""

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("victim", "layout"),
    [
        pytest.param(0, {"ranks": 3, "group": 2}, id="master"),
        pytest.param(1, {"ranks": 3, "group": 2}, id="leader"),
        pytest.param(2, {"ranks": 3, "group": 2}, id="member"),
        pytest.param(2, {"ranks": 3}, id="worker"),
        pytest.param(0, {"ranks": 5, "masters": 2, "master_sync_every": 1}, id="top master"),
        pytest.param(2, {"ranks": 5, "masters": 2, "master_sync_every": 1}, id="lower master"),
    ],
)
def test_a_killed_rank_costs_one_checkpoint_interval_at_most_and_leaves_no_process(
    tmp_path, monkeypatch, victim, layout
):
    pytest.importorskip("mpi4py")
    folder, notes = RunFolder(tmp_path / "run"), tmp_path / "notes"
    notes.mkdir()
    folder.create()
    folder.write_config(config(layout))
    is_master = victim < layout.get("masters", 1) + ("masters" in layout)
    orders = {"folder": str(folder.path), "notes": str(notes), "victim": victim}
    (tmp_path / "orders.json").write_text(json.dumps(orders | {"is_master": is_master}))
    ranks = LocalRanks(
        (str(tmp_path / "orders.json"),),
        layout["ranks"],
        folder,
        Silent(),
        newest=lambda: max(folder.saved_steps(), default=-1),
        quiet=True,
    )
    monkeypatch.setattr(
        process, "sys", SimpleNamespace(**vars(sys) | {"executable": shim(tmp_path)})
    )
    ranks.run()
    kills = [json.loads(path.read_text()) for path in sorted(notes.glob("kill-[0-9]"))]
    assert [kill["phase"] for kill in kills] == ["start", "exchange", "save", "validation"]
    lines = record.read(folder.record_file).lines
    assert (lines[-1].kind, lines[-1].reason) == ("stopped", "max_steps")
    assert STEPS - 3 * IN_FLIGHT < lines[-1].step <= STEPS
    # The world after the kill at the start resumes from nothing, or from step 0.
    resumed = [line.step for line in lines if line.kind == "resumed" and line.step]
    assert len(resumed) == 3
    for kill, step in zip(kills[1:], resumed, strict=True):
        assert step >= kill["newest"] > 0
        # A checkpoint is written after its validation, which lasts as long as it needs.
        assert kill["phase"] == "validation" or kill["steps"] - step <= EVERY + IN_FLIGHT, kill
    left = [path.name for path in notes.glob("pid-*") if is_alive(path.name.removeprefix("pid-"))]
    assert len(list(notes.glob("pid-*"))) == 5 * layout["ranks"]
    assert left == []


def config(layout):
    return RunConfig.model_validate(
        {
            "data": {"path": "showers"},
            "model": {"preset": "smoke"},
            "training": {"max_steps": STEPS, "epochs": 1000, "validate_every": 5},
            "checkpoint": {"every_steps": EVERY, "keep": 3},
            "parallel": {"mode": "downpour", "synchronous": True, "sync_every": 1} | layout,
        }
    )


def shim(folder):
    """Returns a Python that runs the program of this test in place of `python -m cloudgan`."""
    path = folder / "python"
    line = f'PYTHONPATH="{PROGRAM.parents[1]}" exec "{sys.executable}" "{PROGRAM}" "$@"'
    path.write_text(f"#!/bin/sh\nshift 2\n{line}\n")
    path.chmod(0o755)
    return str(path)


def is_alive(pid):
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX" and PROGRAM.name.encode() in command
