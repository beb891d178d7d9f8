"""Watches for the notice that this machine is about to be taken away, beside everything else."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.worker.metadata import MetadataService, Notice

_LONGEST_PAUSE_SECONDS = 60.0


class NoticeWatch:
    """A thread that asks until there is a notice; a service that is away costs nothing but a line."""

    def __init__(
        self,
        service: MetadataService,
        on_notice: Callable[[Notice], None],
        say: Callable[[str], None],
        *,
        every_seconds: float | None = None,
    ) -> None:
        """Starts it; `on_notice` is called once at most, `every_seconds` is the service's own."""
        self._every_seconds = service.every_seconds if every_seconds is None else every_seconds
        self._service, self._on_notice, self._say = service, on_notice, say
        self._closed = threading.Event()
        self._notice: Notice | None = None
        self._thread = threading.Thread(target=self._run, name="notice", daemon=True)
        self._thread.start()

    def acknowledge(self) -> None:
        """Tells the cloud, where there was a notice, that this machine is needed no more."""
        if self._notice is None:
            return
        try:
            self._service.acknowledge(self._notice)
        except (OSError, ValueError) as error:
            self._say(f"the notice could not be answered: {error}")

    def close(self) -> None:
        """Asks no more."""
        self._closed.set()

    def _run(self) -> None:
        pause, is_told = self._every_seconds, False
        while not self._closed.is_set():
            try:
                notice = self._service.look()
            except (OSError, ValueError) as error:
                if not is_told:
                    self._say(
                        f"nobody tells whether this machine will be taken away ({error}); asked now"
                        " and then, and SIGTERM is heard in any case"
                    )
                is_told = True
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            else:
                pause = self._every_seconds
                if notice is not None:
                    self._notice = notice
                    self._on_notice(notice)
                    return
            self._closed.wait(pause)
