"""Running processes."""

from __future__ import annotations

import os
import subprocess
import time


def is_gone(process_id, seconds=10.0):
    """Whether no process has this number, or it ended and its parent has not waited for it yet."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        state = _ps("-o", "stat=", "-p", process_id)
        if not state or state.startswith("Z"):
            return True
        time.sleep(0.05)
    return False


def children_doing(word, *, of=None):
    """The children of a process, else of this one, with `word` in their command line."""
    found = map(int, _ps("--ppid", of or os.getpid(), "-o", "pid=").split())
    return [one for one in found if word in _ps("-ww", "-o", "args=", "-p", one)]


def _ps(*words):
    done = subprocess.run(["ps", *map(str, words)], capture_output=True, text=True)
    return done.stdout.strip()
