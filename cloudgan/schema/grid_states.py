"""Saved states of cells: their names in the folder and the store of a run, and where all cells continue."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

CELLS: Final = "cells"
"""Folder of a run with a folder per cell, also in the store."""
_STATE = re.compile(r"state-(\d{9})\.npz")


def state_name(iteration: int) -> str:
    """Returns the file name of the state of an iteration."""
    return f"state-{iteration:09d}.npz"


def saved_iterations(names: Iterable[str]) -> list[int]:
    """Returns the iterations of the states among file names, in ascending order."""
    found = (_STATE.fullmatch(name) for name in names)
    return sorted(int(name[1]) for name in found if name)


def common_iteration(saved: Iterable[Collection[int]]) -> int:
    """Returns the newest iteration that all cells have saved; 0: there is none."""
    return max(set.intersection(*map(set, saved)), default=0)


def newest_point(saved: Sequence[Collection[int]], *, asynchronous: bool) -> int:
    """Returns the iteration up to which no cell repeats its work after a restart.

    Cells in step continue from the newest one that all have; asynchronous ones each from its own newest.
    """
    if asynchronous:
        return min(max(each, default=0) for each in saved)
    return common_iteration(saved)


def saved_in_store(names: Iterable[str], cells: int) -> list[list[int]]:
    """Returns each cell's iterations by names such as ``cells/0-1/state-000000005.npz``; a cell may have none."""
    by_cell: dict[str, list[str]] = {}
    for name in names:
        folder, _, file = name.rpartition("/")
        by_cell.setdefault(folder, []).append(file)
    found = [states for states in map(saved_iterations, by_cell.values()) if states]
    return found + [[]] * (cells - len(found))
