"""Slurm's own programs, run and understood: sbatch, squeue, scancel, scontrol, sinfo, sacct."""

from __future__ import annotations

import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Final

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import ConfigError, LaunchError
from cloudgan.core.settings import child_environment

if TYPE_CHECKING:
    from collections.abc import Callable

NEEDED: Final = ("sbatch", "squeue", "scancel", "scontrol", "sinfo")
_AWAY = (
    "Unable to contact slurm controller",
    "Socket timed out",
    "Connection refused",
    "Zero Bytes were transmitted",
    "Transport endpoint is not connected",
)
_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 2.0


class RefusedError(LaunchError):
    """Slurm said no; the message is its own."""


class Commands:
    """Runs Slurm's programs; a controller that is away for a while is waited for."""

    def __init__(
        self,
        say: Callable[[str], None] = lambda _: None,
        *,
        patience_seconds: float = _PATIENCE_SECONDS,
        pause_seconds: float = _PAUSE_SECONDS,
    ) -> None:
        self._say, self._patience, self._pause = say, patience_seconds, pause_seconds

    def require(self) -> None:
        """Finds out whether Slurm can be reached from this machine at all.

        Raises:
            ConfigError: Its programs are not here; says what to do.
        """
        missing = [name for name in NEEDED if shutil.which(name) is None]
        if missing:
            raise ConfigError(
                f"--provider=slurm needs Slurm's own programs, and {', '.join(missing)} cannot be"
                " found here; log in to a machine of the cluster from which jobs are sent, and run"
                " cloudgan there (`module load slurm` may be needed first)"
            )

    def run(self, *command: str) -> str:
        """Runs a program and returns what it printed; all times in it are UTC.

        Raises:
            RefusedError: It failed; carries its words.
            LaunchError: The controller does not answer.
            ConfigError: There is no such program here.
        """
        until, was_away = monotonic_seconds() + self._patience, False
        while True:
            done = self._once(command)
            if done.returncode == 0:
                return done.stdout
            words = _words(done.stderr or done.stdout)
            if not any(sign in words for sign in _AWAY):
                raise RefusedError(words or f"{command[0]} ended with exit code {done.returncode}")
            if monotonic_seconds() > until:
                raise LaunchError(
                    f"Slurm's controller does not answer ({words}); its jobs go on without it. Try"
                    " again when it is back"
                )
            if not was_away:
                self._say(f"Slurm's controller does not answer ({words}); waiting for it")
                was_away = True
            time.sleep(self._pause)

    def _once(self, command: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        if shutil.which(command[0]) is None:
            self.require()
            raise RefusedError(f"{command[0]} cannot be found here")
        return subprocess.run(  # noqa: S603
            command,
            env=child_environment(TZ="UTC", SLURM_TIME_FORMAT=None),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


def _words(text: str) -> str:
    """What a program said, without its own name before each line."""
    lines = (line.strip() for line in text.splitlines())
    plain = [line.removeprefix(f"{name}: ") for line in lines for name in (line.partition(":")[0],)]
    return "; ".join(dict.fromkeys(line.removeprefix("error: ") for line in plain if line))
