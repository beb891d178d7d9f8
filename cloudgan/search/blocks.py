"""Blocks: shares of this machine, each of which trains one run after another.

A run is an ordinary `cloudgan train` in a process of its own, so a crash or a lack of memory costs one
run. Each watches its standard input and saves and stops when the process that started it dies.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import this_machine
from cloudgan.core.settings import child_environment
from cloudgan.schema.search_exchange import TrialRun, TrialStates
from cloudgan.training.cluster import share_gpus

_GRACE_SECONDS = 60.0
LOG = "block.log"
PROGRAM = (sys.executable, "-m", "cloudgan", "train", "--json")


@dataclass
class Block:
    """One share of this machine.

    Attributes:
        index: From 0.
        variables: Environment of its processes: the GPUs that they may use.
        program: Trains the run whose folder its last argument names.
    """

    index: int
    variables: dict[str, str]
    program: tuple[str, ...] = PROGRAM
    _process: subprocess.Popen[bytes] | None = None

    @property
    def is_ready(self) -> bool:
        """Whether no run is trained."""
        return self._process is None

    def start(self, run: TrialRun, path: Path) -> None:
        """Trains a run, whose folder `path` holds its run.yaml."""
        del run
        path.mkdir(parents=True, exist_ok=True)
        with (path / LOG).open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                [*self.program, f"--run={path}"],
                env=child_environment(TF_CONFIG=None, CLOUDGAN_SUPERVISED="1", **self.variables),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C reaches it once, through this process
            )

    def ended(self) -> int | None:
        """Returns the exit code of the process and frees the block; None while it runs."""
        if self._process is None:
            return None
        code = self._process.poll()
        if code is None:
            return None
        if self._process.stdin:
            self._process.stdin.close()
        self._process = None
        return code

    def request_stop(self) -> None:
        """Asks the run to save a checkpoint and to stop."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Ends the run without a checkpoint."""
        if self._process:
            self._process.kill()

    def stop(self) -> None:
        """Stops the run: SIGINT, then SIGKILL after the grace period."""
        self.request_stop()
        deadline = time.monotonic() + _GRACE_SECONDS
        while self.ended() is None and self._process:
            if time.monotonic() > deadline:
                self.kill()
            time.sleep(0.05)


@dataclass(frozen=True)
class LocalBlocks:
    """The blocks of this machine."""

    blocks: Sequence[Block]
    poll_seconds: float = 0.2

    @classmethod
    def of_machine(cls, count: int) -> LocalBlocks:
        """Divides this machine into blocks.

        Raises:
            ConfigError: There are more blocks than devices, or they do not divide the GPUs.
        """
        cores = this_machine().cores
        shares = share_gpus(count)
        if not any(shares) and count > cores:
            raise ConfigError(
                f"--blocks={count}: this machine has {cores} cores; give at most {cores}"
            )
        return cls([Block(index, shares[index]) for index in range(count)])

    def current(self) -> Sequence[Block]:
        """Returns all blocks."""
        return self.blocks

    def training(self) -> dict[TrialRun, int]:
        """Returns no runs: those of an earlier coordinator ended with it."""
        return {}

    def run_threads(self) -> int | None:
        """Returns the threads of each block's process; None: a single block has all."""
        return max(1, this_machine().cores // len(self.blocks)) if len(self.blocks) > 1 else None

    def note(self, states: TrialStates) -> None:
        """Keeps nothing: the study has the states of the trials."""

    def close(self, *, finished: bool) -> None:
        """Asks all runs to stop at the same time, and waits for them."""
        del finished
        for block in self.blocks:
            block.request_stop()
        for block in self.blocks:
            block.stop()
