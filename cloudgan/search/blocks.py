"""Blocks: shares of a machine, each of which trains one run after another; and which of those in pods are alive.

A run is an ordinary `cloudgan train` in a process of its own, so a crash or a lack of memory costs one
run. Each watches its standard input and saves and stops when the process that started it dies. A block in a pod
writes its status to the store of the search.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from cloudgan.core.documents import parse_model
from cloudgan.core.errors import ConfigError, counted
from cloudgan.core.file_lock import holder
from cloudgan.core.hardware import this_machine
from cloudgan.core.settings import child_environment
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.search import BLOCKS, LEASE_SECONDS, STATUS, BlockStatus
from cloudgan.storage.store import ObjectMissingError, Store
from cloudgan.training.cluster import share_gpus

LOG = "block.log"
PROGRAM = (sys.executable, "-m", "cloudgan", "train", "--json")


@dataclass
class Block:
    """One share of this machine.

    Its processes see the GPUs that `variables` names; the last argument of `program` names the folder of
    the run.
    """

    index: int
    variables: dict[str, str]
    program: tuple[str, ...] = PROGRAM
    _process: subprocess.Popen[bytes] | None = None
    _is_asked: bool = False

    def start(self, path: Path) -> None:
        """Trains the run whose folder holds its run.yaml."""
        self._is_asked = False
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
        """Asks the run to save a checkpoint and to stop, once: a second signal would end it without one."""
        if self._process and self._process.poll() is None and not self._is_asked:
            self._is_asked = True
            self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Ends the run without a checkpoint."""
        if self._process:
            self._process.kill()

    def stop(self, grace_seconds: float) -> None:
        """Stops the run: SIGINT, then SIGKILL after the grace period."""
        self.request_stop()
        deadline = time.monotonic() + grace_seconds
        while self.ended() is None and self._process:
            if time.monotonic() > deadline:
                self.kill()
            time.sleep(0.05)


def blocks_of_machine(count: int) -> list[Block]:
    """Divides this machine into blocks."""
    cores, shares = this_machine().cores, share_gpus(count)
    if not any(shares) and count > cores:
        raise ConfigError(
            f"--blocks={count}: this machine has {counted(cores, 'core')}; give at most {cores}"
        )
    return [Block(index, share) for index, share in enumerate(shares)]


def wait_for_trainers(
    folders: Iterable[Path], say: Callable[[str], None], gives_up: Callable[[], bool]
) -> None:
    """Waits for trainers of an earlier process, which save and end without it."""
    for path in folders:
        is_said = False
        while (process := holder(RunFolder(path).lock_file)) and not gives_up():
            if not is_said:
                say(f"trial {path.name}: waits for process {process}, which still trains it")
                is_said = True
            time.sleep(0.2)


class BlockWatch:
    """Sees by their status which blocks in pods are alive, by the clock of the process that looks."""

    def __init__(self, store: Store, lease_seconds: float = LEASE_SECONDS) -> None:
        self._store, self._lease_seconds = store, lease_seconds
        self._beats: dict[str, tuple[int | None, float]] = {}

    def names(self, worker: str = "") -> list[str]:
        """Returns the names of all blocks that begin like a worker, of their earlier incarnations too."""
        found = self._store.list(f"{BLOCKS}/{worker}")
        return [name.split("/")[1] for name in found if name.endswith(f"/{STATUS}")]

    def statuses(self) -> list[BlockStatus]:
        """Returns the last status of each block."""
        found = (self._status(name) for name in self.names())
        return [status for status in found if status]

    def why_gone(self, name: str, names: Collection[str] | None = None) -> str:
        """Returns why a block trains nothing any more; empty: it is alive, as far as this process has seen."""
        status = self._status(name)
        if status and status.left:
            return "left"
        # A worker that started again has lost what its earlier incarnation did.
        listed = self.names(_worker(name)) if names is None else names
        if any(_worker(one) == _worker(name) and one > name for one in listed):
            return "was replaced"
        now, beat = time.monotonic(), status.beat if status else None
        before, since = self._beats.get(name, (-1, now))
        if before != beat:
            self._beats[name] = beat, now
            return ""
        return "is lost" if now - since > self._lease_seconds else ""

    def _status(self, name: str) -> BlockStatus | None:
        try:
            content = self._store.read(f"{BLOCKS}/{name}/{STATUS}")
        except ObjectMissingError:
            return None
        return parse_model(content, BlockStatus, STATUS)


def _worker(name: str) -> str:
    """Deployment and number of a worker, without its incarnation, a time of two parts."""
    return name.rsplit("-", 2)[0]
