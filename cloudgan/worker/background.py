"""Work beside the main loop, which must hear signals at any moment."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from cloudgan.core.errors import TryAgain
from cloudgan.stores import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable


class Background:
    """A function in a thread of its own; what it raises is raised where its end is asked for."""

    def __init__(self, function: Callable[[], None], name: str) -> None:
        """Starts it."""
        self._function = function
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def is_done(self) -> bool:
        """Whether it ended well.

        Raises:
            Exception: What it raised.
        """
        if self._thread.is_alive():
            return False
        if self._error:
            raise self._error
        return True

    def _run(self) -> None:
        try:
            self._function()
        except Exception as error:  # noqa: BLE001  raised again in is_done
            self._error = error


def persistent(
    function: Callable[[], None],
    *,
    patience_seconds: float,
    pause_seconds: float,
    say: Callable[[str], None],
) -> Callable[[], None]:
    """Returns `function`, tried again while the store fails.

    The result raises TryAgain when that lasts longer than `patience_seconds`.
    """

    def try_again() -> None:
        began, told = time.monotonic(), False
        while True:
            try:
                function()
            except StoreError as error:
                if time.monotonic() - began > patience_seconds:
                    raise TryAgain(
                        f"the store failed for {patience_seconds:.0f} s: {error}"
                    ) from error
                if not told:
                    say(f"{error}; tried again every {pause_seconds:.0f} s")
                told = True
                time.sleep(pause_seconds)
            else:
                return

    return try_again
