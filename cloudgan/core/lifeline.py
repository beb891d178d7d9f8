"""The pipe from a parent process, whose end says that the parent has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TextIO


def at_its_end(lifeline: TextIO, call: Callable[[], object]) -> None:
    """Calls a function, in a thread, when `lifeline` is closed: by the parent, or because it died."""

    def wait() -> None:
        lifeline.read()
        call()

    threading.Thread(target=wait, name="lifeline", daemon=True).start()
