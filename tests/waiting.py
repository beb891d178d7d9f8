"""Waiting for what another thread or process does."""

import time


def until(condition, what="what the test waits for", seconds=60.0):
    """Waits until `condition` returns a true value, and returns it."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen in {seconds:g} s"
        time.sleep(0.01)
    return found
