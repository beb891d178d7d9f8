"""Which processes there are."""

from __future__ import annotations

import os
import subprocess
import time


def is_gone(process_id, seconds=10.0):
    """Whether nobody has that number, or only its entry waits to be fetched."""
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
