"""Shows a result again and again, until Ctrl-C: `--watch`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from cloudgan.core.clock import utc_now
from cloudgan.core.errors import CloudganError, ConfigError, OutputError, Terminated
from cloudgan.core.user_text import printable
from cloudgan.reports.result import Result

_CLEAR = "\x1b[H\x1b[J"
"""Cursor to the first row, then erase to the end (ECMA-48, CUP and ED)."""
LEAST_SECONDS = 1.0


def watch(refresh: Callable[[], Result], show: Callable[[Result], None], seconds: float) -> None:
    """Shows what `refresh` returns every `seconds`: on a terminal in place, elsewhere one block below the other.

    Ctrl-C is its ordinary end. An error of a later refresh is shown, and the next one may succeed.

    Args:
        refresh: Returns the newest result.
        show: Prints it.
        seconds: Pause between two refreshes.

    Raises:
        ConfigError: The pause is too short.
        CloudganError: Of the first refresh.
    """
    if not seconds >= LEAST_SECONDS:
        raise ConfigError(f"--watch={seconds:g}: expected at least {LEAST_SECONDS:g} (seconds)")
    has_begun, is_terminal = False, sys.stdout.isatty()
    try:
        while True:
            result = problem = None
            try:
                result = refresh()
            except CloudganError as error:
                if not has_begun:
                    raise
                problem = error
            # After the refresh, which takes a while: the screen is never empty.
            print(_CLEAR if is_terminal else "\n" * has_begun, end="")
            print(f"{utc_now()}, every {seconds:g} s; Ctrl-C ends this, not the run")
            try:
                if result is not None:
                    show(result)
            except OutputError:
                raise
            except CloudganError as error:  # the problem of a result that is shown
                problem = error
            if problem is not None:
                print(printable(f"cloudgan: {problem}"))
            sys.stdout.flush()
            has_begun = True
            time.sleep(seconds)
    except Terminated:
        raise
    except KeyboardInterrupt:
        print()
