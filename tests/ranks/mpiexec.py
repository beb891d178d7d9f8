"""Starts `cloudgan` under MPICH's launcher, as a user does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cloudgan.core.settings import child_environment
from cloudgan.ranks.hydra import find_program


def mpiexec(ranks: int, *words: object) -> list[str]:
    """Returns the command that runs Python in ranks of this machine."""
    command = (find_program(), "-launcher", "fork", "-n", ranks, sys.executable, *words)
    return [str(word) for word in command]


def mpiexec_three(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command in three ranks to its end."""
    return subprocess.run(
        mpiexec(3, "-m", "cloudgan", *words),
        env=child_environment(CUDA_VISIBLE_DEVICES="-1"),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
