"""The training process: started, listened to, asked to stop, made to say where it hangs, killed."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cloudgan.worker.transcript import Transcript

_MOST_LINE_BYTES = 65536
_LAST_LINES_SECONDS = 2.0
_OWN_WORDS = "cloudgan: "


class Child:
    """One process. It stays in our process group: who freezes or kills a pod means both."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], transcript: Transcript
    ) -> None:
        """Starts it; its standard input is a lifeline that closes when we die."""
        self._transcript = transcript
        self._words = ""
        self.lines = 0
        """How many lines it said."""
        self.was_killed = False
        """Whether it was we who killed it."""
        self._process = subprocess.Popen(  # noqa: S603  our own command
            list(command),
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._reader = threading.Thread(
            target=self._listen, args=(self._process.stdout,), name="child", daemon=True
        )
        self._reader.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def last_words(self) -> str:
        """The last line in which cloudgan itself said what went wrong."""
        return self._words

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def ask_to_stop(self, *, stepped: bool) -> None:
        """Asks it to save and end, as SIGTERM does.

        Once it has finished a step, closing its lifeline asks the same and can be said twice: a
        second SIGTERM, where the whole group got one already, would end it without saving.
        """
        if not stepped:
            self._process.terminate()
        elif self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def dump_stacks(self) -> None:
        """Makes every thread say where it is, in Python and while stuck in C++ too."""
        self._process.send_signal(signal.SIGUSR1)
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Ends it, stopped or not; does not wait, so that a signal handler may do it too."""
        self.was_killed = self.was_killed or self.poll() is None
        self._process.kill()

    def close(self) -> None:
        """Kills it where it still runs, and takes its last lines."""
        if self.poll() is None:
            self.kill()
            self._process.wait()
        self._reader.join(_LAST_LINES_SECONDS)
        if self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        if self._process.stdout and not self._reader.is_alive():
            self._process.stdout.close()

    def _listen(self, output: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError):
            while raw := output.readline(_MOST_LINE_BYTES):
                text = raw.decode(errors="replace").rstrip("\r\n")
                if text.startswith(_OWN_WORDS):
                    self._words = text.removeprefix(_OWN_WORDS)
                self.lines += 1
                self._transcript.line(text)
