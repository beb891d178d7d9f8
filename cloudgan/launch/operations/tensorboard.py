"""TensorBoard on the record of a run, on this machine."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from cloudgan.core.command import command
from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.core.progress import Progress, Silent
from cloudgan.core.settings import child_environment
from cloudgan.launch.lifecycle.run_results import RunResults
from cloudgan.launch.operations.targets import THIS_FOLDER, find_run
from cloudgan.reports.result import Result, View
from cloudgan.schema import plan as plans
from cloudgan.schema.options.runs import TensorboardOptions
from cloudgan.schema.options.shared import RunLocator
from cloudgan.schema.record import read_if_whole
from cloudgan.schema.run_folder import find_run_folder

_LOOPBACK = "127.0.0.1"
_REFRESH_SECONDS = 30.0


class EventFeed:
    """Writes the epochs of a growing record to event files; each refresh with new ones adds a file."""

    def __init__(
        self, folder: Path, read: Callable[[], bytes | None], say: Callable[[str], None]
    ) -> None:
        self._folder, self._read, self._say = folder, read, say
        self._written: tuple[bytes, ...] = ()

    def refresh(self) -> int:
        """Returns the number of new events; a store that fails is reported and tried again."""
        from cloudgan.data.tfrecord import event_file, scalar_events

        try:
            content = self._read()
        except CloudganError as error:
            self._say(f"the record was not read: {error}")
            return 0
        copy = self._folder / "record.jsonl"
        copy.write_bytes(content or b"")
        events = scalar_events(read_if_whole(copy))
        new = tuple(event for event in events if event not in self._written)
        if new:
            # TensorBoard reads the files of a folder in the order of their names.
            number = len(list(self._folder.glob("events.*")))
            path = self._folder / f"events.out.tfevents.{number:09d}.cloudgan"
            path.write_bytes(event_file(new))
            self._written += new
        return len(new)


class Board(Result):
    """Where TensorBoard shows a run."""

    run: str
    url: str

    def view(self) -> View:
        """Returns the address."""
        return View(f"TensorBoard of {self.run}: {self.url} (Ctrl-C ends it)")


@command
def tensorboard(
    options: TensorboardOptions,
    *,
    announce: Callable[[Result], None] = print,
    progress: Progress | None = None,
) -> None:
    """Shows the losses and metrics of a run in TensorBoard on loopback, until it ends.

    Args:
        options: The run and the port.
        announce: Receives the address.
        progress: Receives a line when a cluster or a store is unavailable.

    Raises:
        ConfigError: There is no such run, TensorBoard is not installed, or the port is in use.
        CloudganError: TensorBoard failed.
    """
    port = options.port
    say = (progress or Silent()).say
    program = shutil.which("tensorboard", path=str(Path(sys.executable).parent))
    program = program or shutil.which("tensorboard")
    if program is None:
        raise ConfigError("TensorBoard is not installed here; run: pip install tensorboard")
    read = _record_reader(options.run, options.locator, say)
    _check_port(port)
    with tempfile.TemporaryDirectory(prefix="cloudgan-tensorboard-") as folder:
        feed = EventFeed(Path(folder), read, say)
        if not feed.refresh():
            say("no epoch has ended yet; new ones appear here")
        words = [program, f"--logdir={folder}", f"--host={_LOOPBACK}", f"--port={port}"]
        process = subprocess.Popen(  # noqa: S603  the program that was found above
            words,
            env=child_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with process:
            announce(Board(run=options.run, url=f"http://{_LOOPBACK}:{port}/"))
            try:
                _follow(process, feed)
            finally:
                process.terminate()


def _follow(process: subprocess.Popen[bytes], feed: EventFeed) -> None:
    """Adds new epochs until TensorBoard ends."""
    while True:
        try:
            code = process.wait(_REFRESH_SECONDS)
        except subprocess.TimeoutExpired:
            feed.refresh()
            continue
        if code:
            raise CloudganError(f"tensorboard exited with code {code}")
        return


def _record_reader(
    name: str, locator: RunLocator, say: Callable[[str], None]
) -> Callable[[], bytes | None]:
    """Returns a function that reads the record: of a local training, or from the store of a run."""
    with suppress(ConfigError):  # perhaps a run that another folder launched
        local = find_run_folder(name)
        is_launched = (local.path / plans.FILE_NAME).exists()
        if locator == THIS_FOLDER and local.record_file.exists() and not is_launched:
            return local.record_file.read_bytes
    plan, _ = find_run(name, locator, say)
    results = RunResults.from_plan(plan)
    if results is None:
        raise ConfigError(
            f"the record of run {plan.run} is in {plan.store}, which only pods can read; see `cloudgan"
            f" exec {plan.run} -- tail /cloudgan/scratch/runs/{plan.run}/record.jsonl`"
        )
    return results.read_record


def _check_port(port: int) -> None:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((_LOOPBACK, port))
        except (OSError, OverflowError) as error:
            raise ConfigError(
                f"--port={port} cannot be used ({error}); choose another one from 1024 to 65535"
            ) from error
