"""Ranks on this machine that fail: which failures start them again."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloudgan.core.errors import CloudganError, NoProgress
from cloudgan.core.progress import Silent
from cloudgan.ranks.launch import LocalRanks
from cloudgan.ranks.process import failure_file
from cloudgan.schema.config import RunConfig
from cloudgan.schema.run_folder import RunFolder


def test_a_rank_that_fails_for_a_lasting_reason_ends_the_run_with_its_message(tmp_path: Path):
    pytest.importorskip("mpi4py")
    folder = RunFolder(tmp_path / "run")
    folder.create()
    config = RunConfig.model_validate(
        {
            "data": {"path": str(tmp_path)},
            "model": {"preset": "smoke"},
            "parallel": {"mode": "easgd", "ranks": 2},
        }
    )
    folder.write_config(config)
    (folder.logs / "rank-001.log").mkdir(parents=True)  # rank 1 cannot write its log
    command = ("train", f"--run={folder.path}")
    ranks = LocalRanks(command, 2, folder, Silent(), newest=lambda: 0, quiet=True)
    with pytest.raises(CloudganError, match=r"IsADirectoryError: .*rank-001\.log") as caught:
        ranks.run()
    assert not isinstance(caught.value, NoProgress)
    assert caught.value.exit_code == 1
    assert failure_file(folder).exists()
    assert (folder.logs / "ranks.log").read_text().count("IsADirectoryError:") == 2  # one world
