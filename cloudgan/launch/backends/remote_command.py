"""Commands beside a worker: where their output goes, and how one is run on this machine."""

from __future__ import annotations

import os
import selectors
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cloudgan.core.errors import ConfigError

_MOST_BYTES = 65_536
_SIGNALLED = 128


class CommandStreams(NamedTuple):
    """The streams of a command.

    Attributes:
        output: Receives each piece of output as bytes, and whether it is from standard error.
        terminal: Whether the command uses the terminal of this process, and `output` nothing.
    """

    output: Callable[[bytes, bool], None]
    terminal: bool = False


def run_process(
    command: Sequence[str],
    streams: CommandStreams,
    *,
    environment: Mapping[str, str],
    folder: Path | None = None,
) -> int:
    """Runs a command on this machine; returns its exit code, 128 + N after signal N.

    Without a terminal it has no standard input.
    """
    pipe = None if streams.terminal else subprocess.PIPE
    try:
        process = subprocess.Popen(  # noqa: S603  the user's own command
            list(command),
            env=dict(environment),
            cwd=folder,
            stdin=None if streams.terminal else subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
        )
    except OSError as error:
        raise ConfigError(f"{command[0]} cannot be run: {error.strerror}") from error
    with process:
        try:
            _read(process, streams)
            code = process.wait()
        except BaseException:
            process.terminate()
            raise
    return code if code >= 0 else _SIGNALLED - code


def _read(process: subprocess.Popen[bytes], streams: CommandStreams) -> None:
    with selectors.DefaultSelector() as selector:
        for stream, is_error in ((process.stdout, False), (process.stderr, True)):
            if stream:
                selector.register(stream, selectors.EVENT_READ, is_error)
        while selector.get_map():
            for key, _ in selector.select():
                content = os.read(key.fd, _MOST_BYTES)
                if content:
                    streams.output(content, key.data)
                else:
                    selector.unregister(key.fileobj)
