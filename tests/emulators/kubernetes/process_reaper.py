"""Kills process groups when its parent dies; a program, run by its path.

Reads `+PGID` and `-PGID` lines; at the end of its input it kills the groups that remain.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    alive: set[int] = set()
    for line in sys.stdin:
        change = alive.add if line[0] == "+" else alive.discard
        change(int(line[1:]))
    for group in alive:
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
