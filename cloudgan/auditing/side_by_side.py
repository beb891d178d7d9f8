"""Asks several clouds at once; one that fails or never answers leaves the others alone."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import CloudganError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Name = TypeVar("Name", bound=str)
T = TypeVar("T")


def side_by_side(
    names: Iterable[Name], ask: Callable[[Name], T], most_seconds: float = 120.0
) -> dict[Name, T | CloudganError]:
    """Returns what each answered, or the error that it raised, in the order of the names.

    Args:
        names: Of clouds.
        ask: Is called with each, in threads.
        most_seconds: For all of them; who is silent until then counts as away.
    """
    answers: dict[Name, T | CloudganError] = {}
    faults: list[BaseException] = []

    def one(name: Name) -> None:
        try:
            answers[name] = ask(name)
        except CloudganError as error:
            answers[name] = error
        except BaseException as error:  # noqa: BLE001  raised again below, where somebody sees it
            faults.append(error)

    names = tuple(names)
    # Daemons: the program may end while an SDK waits for a server that is silent.
    threads = [threading.Thread(target=one, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    end = monotonic_seconds() + most_seconds
    for thread in threads:
        thread.join(max(0.0, end - monotonic_seconds()))
    if faults:
        raise faults[0]
    return {
        name: answers[name] if name in answers else _silent(name, most_seconds) for name in names
    }


def _silent(name: str, seconds: float) -> CloudganError:
    return CloudganError(f"{name} did not answer within {seconds:.0f} s; try again")
